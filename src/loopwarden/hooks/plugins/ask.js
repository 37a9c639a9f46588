// Asks loopwarden about one event of a coding agent: its service on a socket, and where there is none the
// hook command, which answers and starts one. Whatever fails, the answer is null: go on.

import { spawn } from "node:child_process";
import { connect } from "node:net";
import { homedir } from "node:os";
import { join } from "node:path";

const COMMAND = ["loopwarden-hook"]; // the installation puts in the whole path
const VERSION = "0.1.0"; // of the package: a service of another version does not answer
const PASSED_ON = ["LOOPWARDEN_ATTENDED", "LOOPWARDEN_CONFIG", "LOOPWARDEN_MODE", "LOOPWARDEN_RECORD"];
const MOST_BYTES = 64 * 1024 * 1024; // of an event; a longer one is not looked at
const LONGEST_SOCKET = 100; // bytes of its path
const SERVICE_MS = 3000;
const COMMAND_MS = 6000;

/**
 * @param {string} host as in the table of hosts
 * @param {object} event in the words of that table
 * @returns {Promise<{decision: string, text: string, person: string} | null>} null: go on
 */
export async function ask(host, event) {
  try {
    const payload = Buffer.from(JSON.stringify(event));
    if (payload.length > MOST_BYTES) return null;
    const answer = (await askService(host, payload)) ?? (await askCommand(host, payload));
    return understood(answer);
  } catch {
    return null;
  }
}

/** A hook that gives nothing where it would have failed: a fault in the guard never breaks the agent. */
export function harmless(hook) {
  return async (...all) => {
    try {
      return await hook(...all);
    } catch {
      return undefined;
    }
  };
}

function understood(answer) {
  if (!answer?.length) return null;
  const { decision, text, person } = JSON.parse(answer.toString());
  if (typeof decision !== "string") return null;
  return { decision, text: String(text ?? ""), person: String(person ?? "") };
}

/** What the service printed; null where there is none or it does not answer. */
function askService(host, payload) {
  const path = join(stateFolder(), "service.sock");
  if (process.env.LOOPWARDEN_SERVICE === "off" || Buffer.byteLength(path) > LONGEST_SOCKET) return null;
  const known = PASSED_ON.filter((name) => process.env[name] !== undefined);
  const variables = Buffer.from(known.map((name) => `${name}=${process.env[name]}`).join("\0"));
  const head = `loopwarden-hook ${VERSION} ${host} - ${variables.length} ${payload.length}\n`;
  return new Promise((resolve) => {
    const pieces = [];
    const socket = connect(path);
    const over = (answer) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(answer);
    };
    const timer = setTimeout(over, SERVICE_MS, null);
    socket.on("error", () => over(null));
    socket.on("data", (piece) => pieces.push(piece));
    socket.on("end", () => over(printed(Buffer.concat(pieces))));
    socket.write(Buffer.concat([Buffer.from(head), variables, payload]));
  });
}

/** The output in an answer of the service: a line with exit code and lengths, output, errors. */
function printed(data) {
  const line = data.indexOf("\n");
  const [, out, err] = data.subarray(0, Math.max(line, 0)).toString().split(" ").map(Number);
  const rest = data.subarray(line + 1);
  return rest.length === out + err ? rest.subarray(0, out) : null;
}

/** What the hook command printed. */
function askCommand(host, payload) {
  const [program, ...words] = COMMAND;
  return new Promise((resolve) => {
    const pieces = [];
    const child = spawn(program, [...words, host], { stdio: ["pipe", "pipe", "ignore"], windowsHide: true });
    const over = (answer) => {
      clearTimeout(timer);
      resolve(answer);
    };
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      over(null);
    }, COMMAND_MS);
    child.on("error", () => over(null));
    child.on("close", (code) => over(code === 0 ? Buffer.concat(pieces) : null));
    child.stdout.on("data", (piece) => pieces.push(piece));
    child.stdin.on("error", () => {}); // it did not read all of it
    child.stdin.end(payload);
  });
}

/** The rule is that of `loopwarden.hooks.places`. */
function stateFolder() {
  const { LOOPWARDEN_STATE: named, XDG_STATE_HOME: base } = process.env;
  return named || join(base?.startsWith("/") ? base : join(homedir(), ".local/state"), "loopwarden/hooks");
}
