// Node's side of `make bench-quick`: `add` and `drain`, each in a process of its own.
//   node quick_node.cjs <folder of node_modules> add|drain <jobs> <redis url>
const { createRequire } = require("node:module");
const { randomUUID } = require("node:crypto");
const path = require("node:path");

const [folder, step, count, url] = process.argv.slice(2);
const jobs = Number(count);
const { Queue, Worker } = createRequire(path.join(folder, "package.json"))("bullmq");

const PAGE = 500;
const KEPT = { count: 10_000 }; // as Homing does where nothing else is said
const CONCURRENCY = 400; // it drains fastest with this one; with 100 it reaches 0.93 of that
const address = new URL(url);
const connection = {
  host: address.hostname,
  port: Number(address.port),
  password: decodeURIComponent(address.password) || undefined,
  maxRetriesPerRequest: null,
};

function envelope(number) {
  const payload = { userId: number, kind: "order.created", amount: 4200 };
  return { eventId: randomUUID(), traceId: randomUUID().replaceAll("-", ""), payload };
}

function watch() {
  const wall = performance.now();
  const cpu = process.cpuUsage();
  return (done) => {
    const seconds = (performance.now() - wall) / 1000;
    const used = process.cpuUsage(cpu);
    return {
      rate: done / seconds,
      cpu_us: (used.user + used.system) / done,
      rss_mib: process.memoryUsage().rss / 2 ** 20,
    };
  };
}

async function add() {
  const queue = new Queue("bench", { connection });
  const all = Array.from({ length: jobs }, (_, number) => ({ name: "job", data: envelope(number) }));
  await queue.add("job", all.pop().data); // connects, loads the script
  const stop = watch();
  for (let start = 0; start < all.length; start += PAGE) await queue.addBulk(all.slice(start, start + PAGE));
  const figures = stop(all.length);
  await queue.close();
  return figures;
}

function drain() {
  return new Promise((resolve, reject) => {
    let seen = 0;
    let stop;
    let figures;
    const worker = new Worker(
      "bench",
      async () => {
        seen += 1;
        if (seen === 1) stop = watch();
        if (seen === jobs) {
          figures = stop(jobs - 1);
          setImmediate(() => worker.close().then(() => resolve(figures), reject));
        }
      },
      { connection, concurrency: CONCURRENCY, removeOnComplete: KEPT },
    );
    worker.on("error", reject);
  });
}

({ add, drain })[step]().then(
  (figures) => {
    console.log(JSON.stringify(figures));
    process.exit(0);
  },
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
