// The guard inside OpenClaw: every tool call is told to loopwarden, and what it says is done.

import { ask, harmless } from "./ask.js";

const HOST = "openclaw";
const MOST = 1000; // calls, runs and sessions that are remembered; the oldest go first
const LAST = -1000; // priority: calls that other plug-ins block are none
const SUMMARY = ":compaction:"; // in the id of the run that only makes a summary
const OVER = ["new", "reset", "deleted", "idle", "daily"]; // reasons for which a session ends for good
const GRACE_MS = 100; // for the end of a call to be written down, before its run is ended
const HOLD_MS = 2000; // how long a call waits for the end of its run
const PATIENCE_MS = 30_000; // that OpenClaw is to have: after that it would block the call
const LET_RUN = ["allow-once", "allow-always"];

const SHARED = Symbol.for("loopwarden.openclaw");

/** OpenClaw may load this file more than once, and call hooks of one copy and the middleware of another. */
const { runs, turns, open, waiting, ending } = (globalThis[SHARED] ??= {
  runs: new Map(), // by session: its newest run
  turns: new Map(), // by run: the request that the model was last asked with
  open: new Map(), // by call: what was let run and is not over
  waiting: new Map(), // by session: events that are not answered yet
  ending: new Map(), // by run: that it ends
});

function register(api) {
  const folderOf = (agent) => {
    try {
      return api.runtime.agent.resolveAgentWorkspaceDir(api.config, agent);
    } catch {
      return undefined;
    }
  };

  const tell = (name, context, fields = {}) => {
    return ask(HOST, {
      hook_event_name: name,
      session_id: sessionOf(context),
      run_id: context.runId,
      turn_id: turns.get(context.runId),
      cwd: folderOf(context.agentId),
      ...fields,
    });
  };

  const say = (answer) => {
    if (answer.person) api.logger?.warn?.(answer.person);
  };

  /** The run ends when what is on its way is written down; a later call of it waits for that. */
  const end = async (context, signal) => {
    const late = ending.has(context.runId);
    keep(ending, context.runId, true);
    if (!late) setTimeout(stop, GRACE_MS, api, context.sessionId).unref?.();
    else if (await stop(api, context.sessionId)) await aborted(signal);
  };

  const requested = (event) => {
    if (event.runId?.includes(SUMMARY)) return;
    keep(runs, sessionOf(event), event.runId);
    keep(turns, event.runId, event.callId);
  };

  const before = async (event, context) => {
    await waiting.get(sessionOf(context));
    const told = { ...context, runId: context.runId ?? event.runId };
    keep(runs, sessionOf(told), told.runId);
    const callId = event.toolCallId ?? context.toolCallId;
    const call = { tool_name: event.toolName, tool_input: event.params, tool_use_id: callId };
    const key = keyOf(told, callId);
    keep(open, key, call);
    const answer = await tell("before", told, call);
    if (answer === null) return undefined;
    say(answer);
    if (answer.decision === "note") return undefined;
    if (answer.decision === "ask") return approval(answer, key);
    open.delete(key);
    if (answer.decision === "end") await end(told, context.abortSignal);
    return { block: true, blockReason: answer.text };
  };

  const approval = (answer, key) => ({
    requireApproval: {
      title: "This agent goes round in circles",
      description: `${answer.text}\n\n${answer.person}`,
      severity: "warning",
      allowedDecisions: ["allow-once", "deny"],
      onResolution: (decision) => {
        if (!LET_RUN.includes(decision)) open.delete(key);
      },
    },
  });

  /** The result of a call on its way to the model. */
  const after = async (event, context) => {
    const key = keyOf(context, event.toolCallId);
    const call = open.get(key);
    open.delete(key);
    const answer = call && (await tell(...ended(call, event, context)));
    if (answer?.decision === "end") {
      say(answer);
      await end(context);
    }
    if (answer?.decision !== "note" && answer?.decision !== "end") return undefined;
    const content = [...event.result.content, { type: "text", text: answer.text }];
    return { result: { ...event.result, content } };
  };

  const compacted = async (event, context) => {
    if (!(event.compactedCount > 0)) return; // nothing was left out
    const session = sessionOf(context);
    const told = { ...context, runId: runs.get(session) }; // the context names none
    const answered = tell("compacted", told);
    keep(waiting, session, answered);
    const answer = await answered;
    if (waiting.get(session) === answered) waiting.delete(session);
    if (answer?.decision !== "end") return;
    say(answer);
    await end(told);
  };

  const over = async (event, context) => {
    if (OVER.includes(event.reason)) await tell("ended", context);
  };

  api.on("model_call_started", harmless(requested));
  api.on("before_tool_call", harmless(before), { priority: LAST, timeoutMs: PATIENCE_MS });
  api.registerAgentToolResultMiddleware(harmless(after), { runtimes: ["openclaw", "codex"] });
  api.on("after_compaction", harmless(compacted));
  api.on("session_end", harmless(over));
}

export default {
  id: "loopwarden",
  name: "loopwarden",
  description: "Warns an agent that goes round in circles with its tools, refuses the call, ends the run.",
  register,
};

/** Whether the run could be told to end. */
async function stop(api, sessionId) {
  try {
    const { abortAgentHarnessRun } = await import("openclaw/plugin-sdk/agent-harness");
    return abortAgentHarnessRun(sessionId);
  } catch (error) {
    api.logger?.warn?.(`the run could not be ended, its calls are refused: ${error}`);
    return false;
  }
}

/** Until the signal says so, for a while. */
function aborted(signal) {
  return new Promise((resolve) => {
    setTimeout(resolve, HOLD_MS).unref?.();
    if (!signal || signal.aborted) resolve();
    else signal.addEventListener("abort", resolve, { once: true });
  });
}

/** The key outlives a compaction, which may give the session a new id. */
function sessionOf({ sessionKey, sessionId }) {
  return sessionKey ?? sessionId;
}

function ended(call, { result, isError }, context) {
  if (!isError) return ["after", context, { ...call, tool_response: result }];
  const texts = result.content.filter((block) => block.type === "text").map((block) => block.text);
  return ["failed", context, { ...call, error: texts.join("\n") || "the call failed" }];
}

function keyOf({ runId, sessionKey }, callId) {
  return `${runId ?? sessionKey}/${callId}`;
}

function keep(map, key, value) {
  map.set(key, value);
  if (map.size > MOST) map.delete(map.keys().next().value);
}
