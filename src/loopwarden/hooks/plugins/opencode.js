// The guard inside opencode: every tool call is told to loopwarden, and what it says is done.

import { ask, harmless } from "./ask.js";

const HOST = "opencode";
const INVALID = "invalid"; // the tool that opencode runs in place of a call it can't make
const UNAVAILABLE = "unavailable tool"; // in its error, if there is no such tool
const MOST = 1000; // calls, notes and sessions that are remembered; the oldest go first
const STOP_MS = 1000; // how long the end of a call is waited for before its run is ended
const HOLD_MS = 5000; // how long the next request is held back while a run ends

/** By folder: the newest plug-in, which alone acts where one of a user and one of a project are loaded. */
const newest = (globalThis[Symbol.for("loopwarden.opencode")] ??= new Map());

export const Loopwarden = async ({ client, directory }) => {
  const me = Symbol(directory);
  newest.set(directory, me);

  const runs = new Map(); // by session: the message of the user that is being answered
  const turns = new Map(); // by session: the message that the model was last asked after
  const roots = new Map(); // by session: the session of the person, which a sub-agent works for
  const open = new Map(); // by call: what was let run and is not over
  const notes = new Map(); // by call: what its error says besides, whenever the model is asked
  const waiting = new Map(); // by session: events that are not answered yet
  const ending = new Map(); // by session: the call that ends with its run, null for none

  const guarded = (hook) =>
    harmless(async (...all) => {
      return newest.get(directory) === me ? hook(...all) : undefined;
    });

  const root = (session) => {
    if (!roots.has(session)) keep(roots, session, findRoot(session));
    return roots.get(session);
  };

  const findRoot = async (session) => {
    try {
      const { data } = await within(HOLD_MS, client.session.get({ path: { id: session } }));
      return data?.parentID ? root(data.parentID) : session;
    } catch {
      return session;
    }
  };

  const tell = async (name, session, fields = {}) => {
    const person = await root(session);
    return ask(HOST, {
      hook_event_name: name,
      session_id: person,
      run_id: runs.get(session),
      agent_id: person === session ? undefined : session,
      turn_id: turns.get(session),
      cwd: directory,
      ...fields,
    });
  };

  /** Answers to events that opencode does not wait for are waited for by the next hook. */
  const later = (session, promise) => {
    const all = Promise.all([waiting.get(session), promise.catch(() => {})]);
    waiting.set(session, all);
    all.then(() => waiting.get(session) === all && waiting.delete(session));
  };

  const say = (answer) => {
    if (!answer.person) return;
    const toast = { title: "loopwarden", message: answer.person, variant: "warning" };
    quietly(() => client.tui.showToast({ body: toast }));
    const entry = { service: "loopwarden", level: "warn", message: answer.person };
    quietly(() => client.app.log({ body: entry }));
  };

  const stop = (session) => {
    quietly(() => client.session.abort({ path: { id: session } }));
  };

  /** The run ends once its transcript has the end of this call. */
  const endWith = (session, call) => {
    keep(ending, session, call);
    setTimeout(() => ending.get(session) === call && stop(session), STOP_MS).unref?.();
  };

  const endNow = (session) => {
    keep(ending, session, null);
    stop(session);
  };

  const failed = async (part) => {
    const key = keyOf(part);
    const call = open.get(key);
    if (!open.delete(key)) return;
    const interrupted = part.state.metadata?.interrupted === true;
    const answer = await tell("failed", part.sessionID, {
      ...call,
      error: part.state.error,
      is_interrupt: interrupted,
    });
    if (answer?.decision === "note") keep(notes, key, answer.text);
    if (answer?.decision === "end") {
      say(answer);
      endNow(part.sessionID);
    }
  };

  const partUpdated = (part) => {
    if (part?.type !== "tool") return;
    const { status } = part.state;
    if (status === "error") later(part.sessionID, failed(part));
    const last = ending.get(part.sessionID);
    if (last === part.callID && (status === "error" || status === "completed")) endNow(part.sessionID);
  };

  const compacted = async (session) => {
    const answer = await tell("compacted", session);
    if (answer?.decision !== "end") return;
    say(answer);
    keep(ending, session, null); // the next request is not made
  };

  const forget = async ({ id, parentID }) => {
    if (!parentID) await tell("ended", id);
    for (const kept of [runs, turns, roots, ending]) kept.delete(id);
  };

  const told = guarded(async ({ event: { type, properties } }) => {
    if (type === "message.part.updated") partUpdated(properties.part);
    else if (type === "session.compacted") later(properties.sessionID, compacted(properties.sessionID));
    else if (type === "session.deleted") later(properties.info.id, forget(properties.info));
  });

  const asked = guarded(async ({ sessionID }, { message }) => {
    keep(runs, sessionID, message.id);
    ending.delete(sessionID);
  });

  /** What the model is told in place of the result; nothing for a call that may run. */
  const refusal = guarded(async ({ tool, sessionID, callID }, { args }) => {
    await waiting.get(sessionID);
    const call = described(tool, callID, args);
    const key = keyOf({ sessionID, callID });
    keep(open, key, call);
    const answer = await tell("before", sessionID, call);
    if (answer !== null) say(answer);
    if (answer?.decision !== "refuse" && answer?.decision !== "end") return undefined;
    open.delete(key);
    if (answer.decision === "end") endWith(sessionID, callID);
    return answer.text;
  });

  const over = guarded(async ({ tool, sessionID, callID, args }, output) => {
    const key = keyOf({ sessionID, callID });
    const call = open.get(key) ?? described(tool, callID, args);
    open.delete(key);
    const answer = await tell(...ended(call, sessionID, output));
    if (answer?.decision !== "note" && answer?.decision !== "end") return;
    add(output, answer.text);
    if (answer.decision !== "end") return;
    say(answer);
    endWith(sessionID, callID);
  });

  /** Errors that no other event told of are told here, and have their notes whenever the model is asked. */
  const requested = guarded(async (_input, { messages }) => {
    const { id, sessionID } = messages.at(-1).info;
    keep(turns, sessionID, id);
    const parts = messages.flatMap((message) => message.parts);
    const errors = parts.filter((part) => part.type === "tool" && part.state.status === "error");
    for (const part of errors) later(sessionID, failed(part));
    await waiting.get(sessionID);
    for (const part of errors) {
      const note = notes.get(keyOf(part));
      if (note) part.state.error = `${part.state.error}\n\n${note}`;
    }
  });

  /** Within a request, so that the program says that it was aborted. */
  const held = guarded(async ({ sessionID }) => {
    if (!ending.has(sessionID)) return;
    stop(sessionID);
    await pause(HOLD_MS);
  });

  return {
    event: told,
    "chat.message": asked,
    "tool.execute.before": async (input, output) => {
      const text = await refusal(input, output);
      if (text !== undefined) throw new Error(text);
    },
    "tool.execute.after": over,
    "experimental.chat.messages.transform": requested,
    "chat.params": held,
  };
};

/** A call in the words of the table; one that could not be made is told under the name the model gave. */
function described(tool, callID, args) {
  if (tool !== INVALID) return { tool_name: tool, tool_input: args, tool_use_id: callID };
  const error = String(args?.error ?? "");
  return {
    tool_name: String(args?.tool ?? INVALID),
    tool_input: { error },
    tool_use_id: callID,
    error,
    unknown_tool: error.includes(UNAVAILABLE),
  };
}

/** The end of a call. */
function ended(call, session, output) {
  if (call.error !== undefined) return ["failed", session, call];
  if (output === undefined) return ["failed", session, { ...call, error: "the call failed" }];
  return ["after", session, { ...call, tool_response: resultOf(output) }];
}

/** What a call gave, without what is new in every call. */
function resultOf(output) {
  if (typeof output.output !== "string") {
    const { content, structuredContent, isError } = output; // of an MCP server
    return { content, structuredContent, isError };
  }
  const content = [{ type: "text", text: output.output }];
  for (const { mime, filename, url } of output.attachments ?? []) {
    content.push({ type: "file", mime, filename, url });
  }
  const { exit } = output.metadata ?? {};
  if (typeof exit !== "number") return { content };
  return { content, details: { status: "completed", aggregated: output.output, exitCode: exit } };
}

function add(output, text) {
  if (typeof output?.output === "string") output.output = `${output.output}\n\n${text}`;
  else if (Array.isArray(output?.content)) output.content.push({ type: "text", text });
}

function keyOf({ sessionID, callID }) {
  return `${sessionID}/${callID}`;
}

function keep(map, key, value) {
  map.set(key, value);
  if (map.size > MOST) map.delete(map.keys().next().value);
}

function quietly(act) {
  Promise.resolve().then(act).catch(() => {});
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function within(milliseconds, promise) {
  return Promise.race([promise, pause(milliseconds)]);
}
