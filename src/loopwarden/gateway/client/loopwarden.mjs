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
 *   "raise": a `GatewayError`.
 * @property {number} [timeout] Milliseconds that an answer may take; 3000 by default.
 * @property {(text: string) => void} [log] Told when the gateway fails, when it is back, and once a minute of
 *   events that it does not take; `console.warn` by default.
 */

const MARK = "$loopwarden";
const [NAME, TEXT, HEAD, VALUE] = [200, 32_768, 20_000, 262_144]; // the longest, in characters; of a long text the head
const [DEEPEST, BOTTOM] = [100, 500]; // containers inside each other: sent as they are, told apart
const ANSWER = 1_048_576; // bytes
const VALUES = ["arguments", "result", "at", "timed_out"]; // fields that are no text
const ACTIONS = ["allow", "warn", "block", "abort"];
const ONE_ONLY = [400, 409, 413, 422]; // statuses of a gateway that is well
/** @type {Verdict} */
const ALLOW = Object.freeze({
  action: "allow", level: null, detector: null, count: 0, threshold: 0, tool: null, paired_tools: [],
  message: null, key: null, error: null, would: null, announce: false,
});

/** The guard ended the run; `verdict` says why. */
export class LoopAborted extends Error {
  name = "LoopAborted";
  /** @param {Verdict} verdict */
  constructor(verdict) {
    super(verdict.message ?? verdict.error ?? "the run was ended");
    this.verdict = verdict;
  }
}

/** No verdict was given; `status` is that of the answer, 0: there was none. */
export class GatewayError extends Error {
  name = "GatewayError";
  status = 0;
}

/** Asks the gateway. What goes wrong there never breaks the agent, unless `onError` is "raise". */
export class LoopGuard {
  health = { until: 0, quiet: 0, out: false }; // shared with what `within` makes

  /** @param {Options} [options] */
  constructor(options = {}) {
    const at = new URL(options.url ?? "http://127.0.0.1:8377");
    this.options = options;
    this.token = options.token || decodeURIComponent(at.password)
      || globalThis.process?.env?.LOOPWARDEN_TOKEN?.trim() || "";
    at.username = at.password = "";
    this.url = at.href.replace(/\/+$/, "") + "/v1/events";
  }

  /** The same guard for another run, session or agent. @param {Options} options @returns {LoopGuard} */
  within(options) {
    return Object.assign(new LoopGuard({ ...this.options, ...options }), { health: this.health });
  }

  /**
   * The model asks for a tool: may it run?
   * @param {string} tool @param {unknown} args
   * @param {{callId: string, turnId?: string, at?: number}} ids `turnId`: the model reply; `at`: seconds.
   */
  before(tool, args, { callId, turnId, at }) {
    return this.tell({ event: "before", tool, arguments: args, call_id: callId, turn_id: turnId, at });
  }

  /**
   * A call ended, with a result or an error.
   * @param {string} callId
   * @param {{result?: unknown, error?: unknown, unknownTool?: string, timedOut?: boolean, at?: number}} end
   */
  after(callId, { result, error, unknownTool, timedOut, at } = {}) {
    const end = error == null ? { result } : { error };
    return this.tell({ event: "after", call_id: callId, ...end, unknown_tool: unknownTool, timed_out: timedOut, at });
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
      const { action, announce, message } = unlessEnded(await this.before(tool, args, { ...ids, callId }));
      if (action === "block") return message ?? "";
      /** @type {any} */ let result;
      try {
        result = await work(args);
      } catch (/** @type {any} */ error) {
        unlessEnded(await this.after(callId, { error: error ?? "failed", timedOut: error?.name === "TimeoutError" }));
        throw error;
      }
      unlessEnded(await this.after(callId, { result }));
      if (action !== "warn" || !announce || !message) return result;
      if (typeof result === "string") return `${result}\n\n${message}`;
      return result?.constructor === Object ? { ...result, loop_warning: message } : result;
    };
  }

  /** Any event, with the fields of the API. @param {Record<string, unknown>} event @returns {Promise<Verdict>} */
  async tell(event) {
    const { agent, session, run, mode, onError } = this.options;
    const { health } = this;
    const began = performance.now();
    try {
      if (began < health.until) throw new GatewayError("the gateway failed just now and is left alone for a moment");
      const verdict = await this.ask(written({ event_id: unique(), ...event, agent, session, run, mode }));
      if (health.out) this.say("the gateway is back");
      health.out = false;
      return verdict;
    } catch (/** @type {any} */ error) {
      const now = performance.now();
      if (ONE_ONLY.includes(error.status)) {
        if (now >= health.quiet) {
          this.say(`${error.message}; the call is let through (told once a minute)`);
          health.quiet = now + 60_000;
        }
      } else if (began >= health.until) {
        if (!health.out) this.say(`${error.message}; calls are let through until it is back`);
        health.out = true;
        health.until = now + Math.min(10 * (now - began), 30_000);
      }
      if (onError === "raise") throw error;
      return ALLOW;
    }
  }

  /** One question; it is put again where the connection was lost, and counts once. @param {string} body */
  async ask(body) {
    if (!/^[\w.~+/=-]*$/.test(this.token)) throw new GatewayError("the token has letters that no token has");
    const { timeout = 3000 } = this.options;
    const headers = { "Content-Type": "application/json", Authorization: `Bearer ${this.token}` };
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), timeout);
    const question = async () => {
      const answer = await fetch(this.url, { method: "POST", body, headers, signal: stop.signal, redirect: "error" });
      return { status: answer.status, found: await read(answer) };
    };
    const { status, found } = await question().catch(question).catch((error) => {
      const why = stop.signal.aborted ? ` within ${timeout} ms` : `: ${error.cause?.code ?? error.message}`;
      throw new GatewayError(`no answer from ${this.url}${why}`);
    }).finally(() => clearTimeout(timer));
    const verdict = found?.verdicts?.[0];
    if (status === 200 && ACTIONS.includes(verdict?.action)) return /** @type {Verdict} */ (verdict);
    const detail = status === 200 ? "something that is no verdict" : JSON.stringify(found?.detail)?.slice(0, 300);
    throw Object.assign(new GatewayError(`${this.url} answers ${status}: ${detail ?? "no reason given"}`), { status });
  }

  /** A log that fails is not the agent's trouble. @param {string} text */
  say(text) {
    try { (this.options.log ?? console.warn)(`loopwarden: ${text}`); } catch { /* there is nobody to tell */ }
  }
}

/** @param {Verdict} verdict */
function unlessEnded(verdict) {
  if (verdict.action === "abort") throw new LoopAborted(verdict);
  return verdict;
}

/** What an answer says; undefined: no JSON, or too much of it. @param {Response} answer @returns {Promise<any>} */
async function read(answer) {
  const reader = answer.body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (let size = 0, piece; reader && !(piece = await reader.read()).done;) {
    size += piece.value.length;
    if (size > ANSWER) return void reader.cancel().catch(() => {});
    text += decoder.decode(piece.value, { stream: true });
  }
  try { return JSON.parse(text); } catch { /* no JSON */ }
}

const unique = () => Array.from({ length: 3 }, () => Math.random().toString(36).slice(2, 12)).join("");
const mark = (/** @type {string} */ text) => JSON.stringify({ [MARK]: text });
const named = (/** @type {unknown} */ id) => JSON.stringify(cut(id, NAME) || `(${MARK} empty)`);

/** A batch of one event. @param {Record<string, any>} event */
function written(event) {
  const fields = Object.entries(event).filter(([, value]) => value != null).map(([field, value]) => {
    if (field === "call_ids") return `"${field}":[${Array.from(value, named)}]`;
    if (field === "error") value = cut(value, TEXT, HEAD);
    return `"${field}":${field === "error" || VALUES.includes(field) ? json(value) : named(value)}`;
  });
  return `{"events":[{${fields}}]}`;
}

/**
 * JSON, with a mark in place of what it would lose and of what is too much; unlike values stay unlike.
 * @param {any} value @param {any[]} [above] What it stands in. @param {Map<any, string>[]} [known] By level.
 * @returns {string}
 */
function json(value, above = [], known = []) {
  try {
    if (typeof value?.toJSON === "function") value = value.toJSON();
    if (value instanceof Number || value instanceof String || value instanceof Boolean) value = value.valueOf();
    if (typeof value === "string") return JSON.stringify(cut(value, TEXT, HEAD));
    if (value === null || typeof value === "boolean" || Number.isFinite(value)) return String(value);
    if (typeof value !== "object") return mark(`${typeof value} ${value?.name ?? String(value)}`);
    if (above.includes(value)) return mark(`cycle ${above.length - above.indexOf(value)}`);
    if (above.length === BOTTOM) return mark("deeper");
    const seen = known[above.length] ??= new Map(); // what stands in many places is read once
    if (!seen.has(value)) {
      const inside = [...above, value];
      const part = (/** @type {any} */ item) => json(item, inside, known);
      const items = oddity(value) ?? (Array.isArray(value) ? value : null);
      const keys = items ? [] : Object.keys(value).filter((key) => value[key] !== undefined);
      const text = items ? `[${Array.from(items, part)}]`
        : `{${keys.map((key) => `${JSON.stringify(cut(key, TEXT, HEAD))}:${part(value[key])}`)}}`;
      const fits = text.length <= VALUE && inside.length <= DEEPEST && !keys.includes(MARK);
      const shown = fits ? text : mark(cut(text, NAME));
      seen.set(value, items && items !== value ? `{"${MARK}":${shown}}` : shown);
    }
    return seen.get(value) ?? "";
  } catch { return mark("unreadable"); }
}

/** What is in an object that JSON takes for an empty one. @param {object} value */
function oddity(value) {
  if (value instanceof Map || value instanceof Set) return [value.constructor.name, ...value];
  if (value instanceof Error) return [value.name, value.message];
  if (value instanceof RegExp) return [String(value)];
  return value instanceof ArrayBuffer ? ["bytes", ...new Uint8Array(value)] : null;
}

/**
 * A text, or of a long one the head and a digest; half surrogates are spelt out.
 * @param {unknown} value @param {number} longest @param {number} [head]
 */
function cut(value, longest, head = longest) {
  let text = `(${MARK} unreadable)`;
  try { text = String(value); } catch { /* its own `toString` failed */ }
  const start = text.length > longest ? text.slice(0, head) : text;
  const shown = start.replace(/\p{Surrogate}/gu, (half) => `\\u${half.charCodeAt(0).toString(16)}`);
  if (shown === text) return text;
  let [one, two] = [0x811c9dc5, 0x9e3779b9];
  for (let place = 0; place < text.length; place += 1) {
    one = Math.imul(one ^ text.charCodeAt(place), 0x01000193);
    two = Math.imul(two ^ text.charCodeAt(place), 0x85ebca6b) + (one >>> 16);
  }
  return `${shown}...[loopwarden ${text.length} ${(one >>> 0).toString(16)}${(two >>> 0).toString(16)}]`;
}
