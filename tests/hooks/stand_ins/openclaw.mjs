// Stands in for OpenClaw as far as its plug-ins see it. Run as: node openclaw.mjs PLUGIN PROJECT < steps.json
// Each step is answered with what came of it; `told` is what the plug-in asked of the program.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [plugin, project] = process.argv.slice(2);
const told = { aborted: [], warnings: [] };
const aborted = new Promise((resolve) => {
  globalThis.abortedRun = (session) => resolve(told.aborted.push(session));
});

// it registers a plug-in more than once, and uses hooks of the first and the middleware of the last
const api = (kept) => ({
  config: {},
  runtime: { agent: { resolveAgentWorkspaceDir: () => project } },
  logger: { warn: (text) => told.warnings.push(text) },
  on: (name, handler) => (kept.hooks[name] = handler),
  registerAgentToolResultMiddleware: (handler) => (kept.middleware = handler),
});
const first = { hooks: {} };
const last = { hooks: {} };
for (const [copy, kept] of [first, last].entries()) {
  const { default: entry } = await import(`${pathToFileURL(plugin)}?copy=${copy}`);
  entry.register(api(kept));
}
const { hooks } = first;
let calls = 0;

const contextOf = (run, key) => ({ agentId: "main", sessionKey: key, sessionId: `${key}-1`, runId: run });

const steps = {
  call: async ({ run = "r1", key = "s1", tool = "exec", args = { command: "ls" }, ...given }) => {
    const { output, error, decision } = given;
    calls += 1;
    const context = contextOf(run, key);
    const toolCallId = `c${calls}`;
    hooks.model_call_started({ ...context, callId: `${run}:${calls}` }, context);
    const event = { toolName: tool, params: args, runId: run, toolCallId };
    const said = await hooks.before_tool_call(event, { ...context, toolName: tool, toolCallId });
    if (said?.block) return { refused: said.blockReason };
    if (said?.requireApproval) {
      said.requireApproval.onResolution(decision);
      if (decision === "deny") return { asked: said.requireApproval.description };
    }
    const result = { content: [{ type: "text", text: error ?? output }] };
    const answer = await last.middleware(
      { toolCallId, toolName: tool, args, isError: error !== undefined, result },
      { ...context, runtime: "openclaw" },
    );
    const { content } = answer?.result ?? result;
    return { output: content.map(({ text }) => text).join("\n") };
  },

  compacted: async ({ key = "s1", count }) => {
    const summary = { ...contextOf(`r1:compaction:${calls}`, key), callId: "summary" };
    hooks.model_call_started(summary, contextOf("r1", key));
    // it names no run, and is not waited for
    hooks.after_compaction({ messageCount: 5, compactedCount: count }, contextOf(undefined, key));
  },

  end: async ({ key = "s1", reason }) => {
    const context = contextOf(undefined, key);
    await hooks.session_end({ ...context, messageCount: 1, reason }, context);
  },

  aborted: async () => {
    const alive = setInterval(() => {}, 1000);
    await aborted;
    clearInterval(alive);
  },
};

const results = [];
for (const { step, ...fields } of JSON.parse(readFileSync(0))) {
  results.push((await steps[step](fields)) ?? null);
}
process.stdout.write(JSON.stringify({ results, told }), () => process.exit());
