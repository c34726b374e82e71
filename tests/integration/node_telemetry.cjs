// A Node service with BullMQ's telemetry set up, as bullmq-otel does it, and nothing of OpenTelemetry behind it.
//   node node_telemetry.cjs <folder of node_modules> add|run <redis url> <prefix> <queue> <traceparent> <job data>
// `add` puts one job into the queue inside a span of that context; `run` waits for one job and prints the context that its span began in.
const { createRequire } = require("node:module");
const path = require("node:path");

const [folder, step, url, prefix, queue, traceparent, data] = process.argv.slice(2);
const { Queue, Worker } = createRequire(path.join(folder, "package.json"))("bullmq");

const address = new URL(url);
const connection = {
  host: address.hostname,
  port: Number(address.port),
  db: Number(address.pathname.slice(1) || 0),
  password: decodeURIComponent(address.password) || undefined,
  maxRetriesPerRequest: null,
};

const span = (context) => ({
  setSpanOnContext: () => context,
  setAttribute() {},
  setAttributes() {},
  addEvent() {},
  recordException() {},
  end() {},
});

let joined = null;
const telemetry = {
  tracer: { startSpan: (_name, _options, parent) => span(parent ?? { traceparent }) },
  contextManager: {
    with: (_context, work) => work(),
    active: () => ({ traceparent }),
    getMetadata: (context) => JSON.stringify(context),
    fromMetadata: (_context, metadata) => (joined = JSON.parse(metadata)),
  },
};

async function add() {
  const jobs = new Queue(queue, { connection, prefix, telemetry });
  await jobs.add("award", JSON.parse(data));
  await jobs.close();
}

async function run() {
  const worker = new Worker(queue, async () => "done", { connection, prefix, telemetry });
  await new Promise((resolve) => worker.on("completed", resolve));
  console.log(joined?.traceparent);
  await worker.close(true);
}

({ add, run })[step]().then(() => process.exit(0));
