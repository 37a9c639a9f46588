// Stands in for opencode as far as its plug-ins see it. Run as: node opencode.mjs PLUGIN PROJECT < steps.json
// Each step is answered with what came of it; `told` is what the plug-in asked of the program.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [plugin, directory] = process.argv.slice(2);
const parents = { child: "s1" };
const told = { aborted: [], toasts: [] };
const client = {
  session: {
    abort: async ({ path }) => told.aborted.push(path.id),
    get: async ({ path }) => ({ data: { id: path.id, parentID: parents[path.id] } }),
  },
  tui: { showToast: async ({ body }) => told.toasts.push(body.message) },
  app: { log: async () => true },
};
const { Loopwarden } = await import(pathToFileURL(plugin));
const copies = [await Loopwarden({ client, directory }), await Loopwarden({ client, directory })];
const history = {};
let calls = 0;

/** All copies of the plug-in are asked, one after the other: that of the user and that of the project. */
async function trigger(name, input, output) {
  for (const hooks of copies) await hooks[name](input, output);
}

function settle(part, state) {
  part.state = state;
  for (const hooks of copies) hooks.event({ event: { type: "message.part.updated", properties: { part } } });
}

const steps = {
  message: async ({ session, id }) => {
    await trigger("chat.message", { sessionID: session }, { message: { id }, parts: [] });
  },

  // one request to the model: the texts of errors that it is asked with
  request: async ({ session }) => {
    const first = { info: { id: "m0", sessionID: session }, parts: [] };
    const messages = structuredClone(history[session] ?? [first]);
    await trigger("experimental.chat.messages.transform", {}, { messages });
    return messages.flatMap(({ parts }) => parts).map(({ state }) => state.error).filter(Boolean);
  },

  call: async ({ session = "s1", tool = "bash", args = { command: "ls" }, ...given }) => {
    const { output, error, interrupted, content } = given;
    const seen = await steps.request({ session });
    calls += 1;
    const callID = `c${calls}`;
    const part = { type: "tool", callID, sessionID: session, tool, state: { status: "running" } };
    (history[session] ??= []).push({ info: { id: `m${calls}`, sessionID: session }, parts: [part] });
    const call = { tool, sessionID: session, callID };
    try {
      await trigger("tool.execute.before", call, { args });
    } catch (refusal) {
      settle(part, { status: "error", error: refusal.message });
      return { refused: refusal.message };
    }
    if (error !== undefined) {
      settle(part, { status: "error", error, metadata: { interrupted } });
      return { error, seen };
    }
    const result = content ? { content } : { title: "", output, metadata: {} };
    await trigger("tool.execute.after", { ...call, args }, result);
    settle(part, { status: "completed" });
    return content ? { content: result.content } : { output: result.output };
  },

  event: async (event) => {
    for (const hooks of copies) hooks.event({ event }); // not waited for
  },

  // what is asked within a request, after its text is made
  params: async ({ session }) => {
    const over = new Promise((resolve) => setImmediate(resolve, "held"));
    return Promise.race([trigger("chat.params", { sessionID: session }, {}).then(() => "asked"), over]);
  },
};

const results = [];
for (const { step, ...fields } of JSON.parse(readFileSync(0))) {
  results.push((await steps[step](fields)) ?? null);
}
await new Promise(setImmediate);
process.stdout.write(JSON.stringify({ results, told }), () => process.exit());
