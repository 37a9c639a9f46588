// @ts-check
/**
 * The guard of a loopwarden gateway for agents in JavaScript: Node.js 18 or later, and browsers.
 *
 * @typedef {object} Verdict
 * @property {"allow" | "warn" | "block" | "abort"} action `block`: don't run it, `message` is its result.
 * @property {"warning" | "critical" | null} level
 * @property {string | null} detector What was found; null: nothing.
 * @property {number} count
 * @property {number} threshold
 * @property {string | null} tool
 * @property {string[]} paired_tools
 * @property {string | null} message Text for the model.
 * @property {string | null} key
 * @property {"compaction_loop_persisted" | "tool_loop_persisted" | null} error Code of the abort.
 * @property {"allow" | "warn" | "block" | "abort" | null} would In observe mode what would have been done.
 * @property {boolean} announce Whether the model is to be told now.
 *
 * @typedef {object} Options
 * @property {string} [url] Of the gateway; `http://127.0.0.1:8377` by default.
 * @property {string} [token] By default the variable LOOPWARDEN_TOKEN, where there are variables.
 * @property {string} [agent] Whose settings apply.
 * @property {string} [session]
 * @property {string} [run] One answer to one message of a person, or one scheduled run.
 * @property {"enforce" | "observe"} [mode]
 * @property {"allow" | "raise"} [onError] What a gateway that fails does to the agent; "allow" by default.
 * @property {number} [timeout] Milliseconds that an answer may take; 3000 by default.
 * @property {(text: string) => void} [log] Told when the gateway fails, and when it is back.
 */

const MARK = "$loopwarden";
const ACTIONS = ["allow", "warn", "block", "abort"];
const ONE_ONLY = [400, 409, 413, 422]; // statuses of a gateway that is well
/** @type {Verdict} */
const ALLOW = Object.freeze({
  action: "allow", level: null, detector: null, count: 0, threshold: 0, tool: null, paired_tools: [],
  message: null, key: null, error: null, would: null, announce: false,
});

/** The guard ended the run; `verdict` says why. */
export class LoopAborted extends Error {
  /** @param {Verdict} verdict */
  constructor(verdict) {
    super(verdict.message ?? verdict.error ?? "the run was ended");
    this.name = "LoopAborted";
    this.verdict = verdict;
  }
}

/** Asks the gateway. What goes wrong there never breaks the agent, unless `onError` is "raise". */
export class LoopGuard {
  /** @param {Options} [options] */
  constructor(options = {}) {
    const at = new URL(options.url ?? "http://127.0.0.1:8377");
    this.options = { onError: "allow", timeout: 3000, log: console.warn, ...options };
    this.token = options.token || decodeURIComponent(at.password)
      || globalThis.process?.env?.LOOPWARDEN_TOKEN?.trim() || "";
    at.username = at.password = "";
    this.url = at.href.replace(/\/+$/, "") + "/v1/events";
    this.health = { until: 0, out: false }; // shared with what `within` makes
  }

  /** The same guard for another run, session or agent. @param {Options} options @returns {LoopGuard} */
  within(options) {
    return Object.assign(Object.create(LoopGuard.prototype), this, { options: { ...this.options, ...options } });
  }

  /**
   * The model asks for a tool: may it run?
   * @param {string} tool @param {unknown} args
   * @param {{callId: string, turnId?: string, at?: number}} ids `turnId`: the model reply; `at`: seconds.
   */
  before(tool, args, { callId, turnId, at }) {
    return this.tell({ event: "before", tool, arguments: args ?? null, call_id: callId, turn_id: turnId, at });
  }

  /**
   * A call ended, with a result or an error.
   * @param {string} callId
   * @param {{result?: unknown, error?: unknown, unknownTool?: string, timedOut?: boolean, at?: number}} end
   */
  after(callId, { result, error, unknownTool, timedOut, at } = {}) {
    const end = error == null ? { result: result ?? null } : { error: String(error) };
    return this.tell({
      event: "after", call_id: callId, ...end, unknown_tool: unknownTool, timed_out: timedOut, at,
    });
  }

  /** The history was compacted. @param {{continues?: string}} [was] The run that goes on as this one. */
  compacted({ continues } = {}) { return this.tell({ event: "compacted", continues }); }

  /** A person wrote. */
  userMessage() { return this.tell({ event: "user_message" }); }

  /** A model reply failed and is made again. @param {string[]} callIds Its calls. */
  retract(callIds) { return this.tell({ event: "retract", call_ids: callIds }); }

  /** The run is over. */
  forget() { return this.tell({ event: "forget" }); }

  /**
   * A function as a tool: a refused call returns the refusal, an ended run throws `LoopAborted`, and a warning
   * goes into a text (after a blank line) or a plain object (as `loop_warning`).
   * @template A, R
   * @param {string} tool @param {(args: A) => R | Promise<R>} work
   * @returns {(args: A, ids?: {callId?: string, turnId?: string}) => Promise<R | string>}
   */
  guarded(tool, work) {
    return async (args, ids = {}) => {
      const callId = ids.callId ?? unique();
      const verdict = await this.before(tool, args, { callId, turnId: ids.turnId });
      if (verdict.action === "abort") throw new LoopAborted(verdict);
      if (verdict.action === "block") return verdict.message ?? "";
      /** @type {any} */ let result;
      try {
        result = await work(args);
      } catch (error) {
        leave(await this.after(callId, { error, timedOut: error?.name === "TimeoutError" }));
        throw error;
      }
      leave(await this.after(callId, { result }));
      if (verdict.action !== "warn" || !verdict.announce || !verdict.message) return result;
      if (typeof result === "string") return `${result}\n\n${verdict.message}`;
      return result?.constructor === Object ? { ...result, loop_warning: verdict.message } : result;
    };
  }

  /** Any event, with the fields of the API. @param {Record<string, unknown>} event @returns {Promise<Verdict>} */
  async tell(event) {
    const { agent, session, run, mode, onError, log } = this.options;
    const began = Date.now();
    try {
      if (began < this.health.until) throw new Error("the gateway failed just now and is left alone for a moment");
      const body = write({ events: [{ event_id: unique(), ...event, run: run ?? null, session, agent, mode }] });
      const verdict = await this.ask(body);
      if (this.health.out) log("loopwarden: the gateway is back");
      this.health.out = false;
      return verdict;
    } catch (error) {
      if (!error.refused && began >= this.health.until) {
        this.health.until = Date.now() + Math.min(10 * (Date.now() - began), 30_000);
        if (!this.health.out) log(`loopwarden: ${error.message}; calls are let through until it is back`);
        this.health.out = true;
      }
      if (onError === "raise") throw error;
      return ALLOW;
    }
  }

  /** One question; it is put again where the connection was lost, and counts once. @param {string} body */
  async ask(body) {
    if (!/^[\w.~+/=-]*$/.test(this.token)) throw new Error("the token has letters that no token has");
    const signal = AbortSignal.timeout(this.options.timeout);
    const headers = { "Content-Type": "application/json", Authorization: `Bearer ${this.token}` };
    const question = async () => {
      const answer = await fetch(this.url, { method: "POST", body, headers, signal, redirect: "error" });
      return { status: answer.status, text: await answer.text() };
    };
    const { status, text } = await question().catch((error) => {
      if (signal.aborted) throw new Error(`no answer from ${this.url} within ${this.options.timeout} ms`);
      return question().catch((again) => {
        throw new Error(`no answer from ${this.url}: ${again.cause?.code ?? again.message ?? error}`);
      });
    });
    if (status === 401) throw new Error(`${this.url} does not take the token: set LOOPWARDEN_TOKEN or \`token\``);
    if (status !== 200) {
      throw Object.assign(new Error(`${this.url} answers ${status}`), { refused: ONE_ONLY.includes(status) });
    }
    const verdict = JSON.parse(text).verdicts?.[0];
    if (!ACTIONS.includes(verdict?.action)) throw new Error(`${this.url} answers something that is no verdict`);
    return /** @type {Verdict} */ (verdict);
  }
}

/** @param {Verdict} verdict */
function leave(verdict) {
  if (verdict.action === "abort") throw new LoopAborted(verdict);
}

function unique() {
  return Array.from({ length: 3 }, () => Math.random().toString(36).slice(2, 12)).join("");
}

/** JSON, with a mark in place of what JSON would lose, so that unlike values stay unlike. @param {unknown} event */
function write(event) {
  /** @type {unknown[]} */ const above = [];
  return JSON.stringify(event, function (key, item) {
    const was = this[key];
    while (above.length && above[above.length - 1] !== this) above.pop();
    if (typeof item === "string") return short(item);
    if (typeof item === "number") return Number.isFinite(item) ? item : { [MARK]: String(item) };
    if (typeof item === "bigint" || typeof item === "symbol") return { [MARK]: `${typeof item} ${String(item)}` };
    if (typeof item === "function") return { [MARK]: `function ${item.name}` };
    if (typeof item !== "object" || item === null) return item;
    if (above.includes(item)) return { [MARK]: `cycle ${above.length - above.indexOf(item)}` };
    above.push(item);
    if (was instanceof Map || was instanceof Set) return { [MARK]: was.constructor.name, items: [...was] };
    if (was instanceof Error) return { [MARK]: was.name, message: was.message };
    if (was instanceof RegExp) return { [MARK]: String(was) };
    if (was instanceof ArrayBuffer) return { [MARK]: "bytes", items: [...new Uint8Array(was)] };
    return item;
  });
}

/** A text, or of a long one the head and a digest of the rest. @param {string} text */
function short(text) {
  if (text.length <= 32_768) return text;
  let [one, two] = [0x811c9dc5, 0x9e3779b9];
  for (let place = 20_000; place < text.length; place += 1) {
    one = Math.imul(one ^ text.charCodeAt(place), 0x01000193);
    two = Math.imul(two ^ text.charCodeAt(place), 0x85ebca6b) + (one >>> 16);
  }
  const digest = (one >>> 0).toString(16) + (two >>> 0).toString(16);
  return `${text.slice(0, 20_000)}...[loopwarden ${text.length} ${digest}]`;
}
