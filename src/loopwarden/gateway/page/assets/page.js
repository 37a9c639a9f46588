// What htmx does not do: keys, times, the state of the connection, and tabs that nobody looks at.
(() => {
  "use strict";

  // A browser opens six connections to a server; a tab that is not seen gives its one back. It resumes from
  // the last event that it knows.
  class Source {
    constructor(address) {
      this.address = new URL(address, location.href);
      this.listeners = [];
      this.over = false;
      this.onopen = this.onerror = null;
      this.inner = null;
      this.look = () => (document.hidden ? this.rest() : this.open());
      document.addEventListener("visibilitychange", this.look);
      this.look();
    }
    get readyState() {
      return this.over ? 2 : this.inner ? this.inner.readyState : 0;
    }
    open() {
      if (this.inner || this.over) return;
      this.inner = new EventSource(this.address);
      this.inner.onopen = (event) => {
        say("on", "live");
        if (this.onopen) this.onopen(event);
      };
      this.inner.onerror = (event) => {
        say("off", "reconnecting");
        // the browser tries again by itself, unless it was given an answer that is no stream
        if (this.readyState === 2 && this.onerror) this.onerror(event);
      };
      for (const [name, listener] of this.listeners) this.inner.addEventListener(name, listener);
      for (const name of ["runs", "run", "reload"]) {
        this.inner.addEventListener(name, (event) => this.address.searchParams.set("after", event.lastEventId));
      }
    }
    rest() {
      if (this.inner) this.inner.close();
      this.inner = null;
    }
    close() {
      this.over = true;
      this.rest();
      document.removeEventListener("visibilitychange", this.look);
    }
    addEventListener(name, listener) {
      this.listeners.push([name, listener]);
      if (this.inner) this.inner.addEventListener(name, listener);
    }
    removeEventListener(name, listener) {
      this.listeners = this.listeners.filter((pair) => pair[0] !== name || pair[1] !== listener);
      if (this.inner) this.inner.removeEventListener(name, listener);
    }
  }
  htmx.createEventSource = (address) => new Source(address);

  const byId = (id) => document.getElementById(id);

  function say(kind, words) {
    const live = byId("live");
    if (!live) return;
    live.hidden = false;
    live.className = "live " + kind;
    if (byId("live-words").textContent !== words) byId("live-words").textContent = words;
  }

  let toast = null;
  function tell(words) {
    if (toast) toast.remove();
    toast = document.createElement("p");
    toast.className = "toast";
    toast.setAttribute("role", "alert");
    toast.textContent = words;
    document.body.append(toast);
    const shown = toast;
    setTimeout(() => shown.remove(), 5000);
  }
  document.addEventListener("htmx:responseError", (event) => {
    const status = event.detail.xhr.status;
    if (status === 401) location.reload();
    else if (status === 409) tell("There was nothing to do any more.");
    else if (event.detail.requestConfig.verb === "post") tell("That did not work (" + status + ").");
  });
  document.addEventListener("htmx:sendError", (event) => {
    if (event.detail.requestConfig.verb === "post") tell("The gateway does not answer.");
  });

  // The same words as markup.py
  function length(seconds) {
    const minutes = Math.round(seconds / 60);
    if (seconds < 60) return Math.max(0, Math.floor(seconds)) + " s";
    if (seconds < 3600) return minutes + " min";
    if (seconds < 86400) return Math.floor(minutes / 60) + " h " + (minutes % 60) + " min";
    return Math.floor(seconds / 86400) + " d";
  }
  function times() {
    const now = Date.now() / 1000;
    for (const time of document.querySelectorAll("time[data-at]")) {
      const words = length(now - Number(time.dataset.at)) + time.dataset.suffix;
      if (time.textContent !== words) time.textContent = words;
    }
    for (const time of document.querySelectorAll("time[data-clock]")) {
      const words = new Date(Number(time.dataset.clock) * 1000).toLocaleTimeString("en-GB");
      if (time.textContent !== words) time.textContent = words;
    }
  }
  setInterval(times, 1000);
  document.addEventListener("htmx:afterSettle", times);

  // The list that one comes back to is the one that one left.
  const LIST = "loopwarden-list";
  function keep() {
    if (location.pathname === "/") sessionStorage.setItem(LIST, location.search);
  }
  function home() {
    return "/" + (sessionStorage.getItem(LIST) || "");
  }
  addEventListener("pagehide", keep);

  function move(step) {
    const items = [...document.querySelectorAll("[data-item]")];
    if (!items.length) return;
    const at = items.indexOf(document.activeElement);
    const next = at < 0 ? (step > 0 ? 0 : items.length - 1) : Math.min(Math.max(at + step, 0), items.length - 1);
    items[next].focus();
    items[next].scrollIntoView({ block: "nearest" });
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const typing = event.target.matches("input, select, textarea");
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      else if (event.target.id === "search" && event.key === "ArrowDown") move(1);
      else return;
      event.preventDefault();
      return;
    }
    const onItem = event.target.matches("[data-item]");
    const deeds = {
      j: () => move(1),
      k: () => move(-1),
      "/": () => (byId("search") ? byId("search").focus() : location.assign(home())),
      u: () => byId("run") && location.assign(home()),
    };
    if (onItem) {
      deeds.ArrowDown = deeds.j;
      deeds.ArrowUp = deeds.k;
    }
    const deed = deeds[event.key];
    if (!deed) return;
    event.preventDefault();
    deed();
  });

  document.addEventListener("DOMContentLoaded", () => {
    times();
    if (byId("live") && byId("live").hidden) say("", "connecting");
    for (const link of document.querySelectorAll("[data-back]")) link.href = home();
  });
})();
