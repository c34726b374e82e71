// BullMQ at the other end of a pipe: makes its objects, calls their methods and tells their events, one JSON line each.
//   node driver.cjs <folder with node_modules>
//
// In:   {id, op: "make", as, kind, args, events}     kind: a class of BullMQ, of the old one as "bullmq5.Queue", "Redis", "BullBoard"
//       {id, op: "call", on, method, args}           on: what was made, or a job that came as {"$ref", "$job"}
//       {id, op: "run", code, args}                  code: a function
//       {id, op: "clock", at}                        at: what Date.now() says from now on, null = the truth again
//       {id, op: "open", gate}                       lets go who waits in `await gate(name)`
//       {id, op: "close", names}
// Out:  {id, value} or {id, error}, and {event, of, args} as they happen
// Arguments may hold {"$ref": name}, {"$code": text of an expression} and {"$error": {message, stack, unrecoverable}}.
const { createRequire } = require("node:module");
const path = require("node:path");
const readline = require("node:readline");

const load = createRequire(path.join(process.argv[2], "package.json"));
const bullmq = load("bullmq");
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
console.log = console.info = console.error; // standard output belongs to the answers

const made = new Map();
const gates = new Map();
const trueNow = Date.now;
let jobs = 0;

/** Waits, in code that came from the other end, until it opens the gate. */
function gate(name) {
  if (!gates.has(name)) {
    let open;
    const opened = new Promise((resolve) => (open = resolve));
    gates.set(name, { opened, open });
  }
  return gates.get(name).opened;
}

function read(value) {
  if (Array.isArray(value)) return value.map(read);
  if (value === null || typeof value !== "object") return value;
  if ("$ref" in value) return wanted(value.$ref);
  if ("$code" in value) return new Function("bullmq", "load", "gate", `return (${value.$code})`)(bullmq, load, gate);
  if ("$error" in value) return readError(value.$error);
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, read(inner)]));
}

function readError({ message, stack, unrecoverable }) {
  const error = unrecoverable ? new bullmq.UnrecoverableError(message) : new Error(message);
  error.stack = stack ?? message;
  return error;
}

function wanted(name) {
  if (!made.has(name)) throw new Error(`nothing was made as ${name}`);
  return made.get(name);
}

function write(value) {
  if (value instanceof bullmq.Job) return writeJob(value);
  if (value instanceof Error) return { message: value.message, name: value.name };
  if (Array.isArray(value)) return value.map(write);
  if (value === null || typeof value !== "object") return typeof value === "function" ? null : value;
  if (Object.getPrototypeOf(value) !== Object.prototype) return null;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, write(inner)]));
}

function writeJob(job) {
  const name = `job ${++jobs}`;
  made.set(name, job);
  const { id, data, opts, token, timestamp, attemptsMade, attemptsStarted, stalledCounter } = job;
  const { returnvalue, failedReason, stacktrace, progress, finishedOn, processedOn, delay, priority } = job;
  const known = { id, name: job.name, queue: job.queueName, data, opts, token, timestamp, attemptsMade, attemptsStarted, stalledCounter };
  const end = { returnvalue, failedReason, stacktrace, progress, finishedOn, processedOn, delay, priority };
  return { $ref: name, $job: { ...known, ...end } };
}

/** Bull Board behind a real HTTP server on a free port; `queues` are made objects. */
async function bullBoard(...queues) {
  const { createBullBoard } = load("@bull-board/api");
  const { BullMQAdapter } = load("@bull-board/api/bullMQAdapter");
  const { ExpressAdapter } = load("@bull-board/express");
  const serverAdapter = new ExpressAdapter();
  createBullBoard({ queues: queues.map((queue) => new BullMQAdapter(queue)), serverAdapter });
  const server = require("node:http").createServer(serverAdapter.getRouter());
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve)));
  return { port: () => server.address().port, close };
}

async function make({ as, kind, args, events }) {
  const given = read(args);
  let object;
  if (kind === "BullBoard") object = await bullBoard(...given);
  else if (kind === "Redis") object = new (load("ioredis"))(...given);
  else if (kind.startsWith("bullmq5.")) object = new (load("bullmq5")[kind.slice(8)])(...given);
  else object = new bullmq[kind](...given);
  for (const event of events ?? []) {
    object.on(event, (...told) => say({ event, of: as, args: write(told) }));
  }
  made.set(as, object);
  return object.waitUntilReady ? object.waitUntilReady().then(() => null) : null;
}

async function close({ names }) {
  for (const name of names) {
    const object = made.get(name); // closed before, or never made
    if (!object) continue;
    made.delete(name);
    if (object.close) await object.close(...(object instanceof bullmq.Worker ? [true] : []));
    else object.disconnect();
  }
  if (made.size && [...made.keys()].every((name) => name.startsWith("job "))) made.clear();
  return null;
}

const operations = {
  make,
  close,
  call: ({ on, method, args }) => wanted(on)[method](...read(args)),
  run: ({ code, args }) => read({ $code: code })(...read(args)),
  clock: ({ at }) => void (Date.now = at === null ? trueNow : () => at),
  open: ({ gate: name }) => (gate(name), gates.get(name).open(), null),
};

async function answer(line) {
  const { id, op, ...terms } = JSON.parse(line);
  try {
    say({ id, value: write(await operations[op](terms)) ?? null });
  } catch (error) {
    say({ id, error: `${error.name}: ${error.message}` });
  }
}

// Answers come when they come: a call that waits must not keep the next one from starting.
readline.createInterface({ input: process.stdin }).on("line", answer).on("close", () => process.exit(0));
