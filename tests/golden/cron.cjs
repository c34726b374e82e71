// Writes cron.json: what Node's cron-parser, which BullMQ uses, answers around every change of the clocks in 2026.
// Renew it in a folder of your own:  npm install cron-parser@5.10.3 && node <this file> > <this folder>/cron.json
const from = { paths: [process.cwd()] };
const { CronExpressionParser } = require(require.resolve('cron-parser', from));
const { version } = require(require.resolve('cron-parser/package.json', from));

const PATTERNS = [
  '30 2 * * *', '0 3 * * *', '0 2 * * *', '30 1 * * *', '0 0 * * *', '30 0 * * *', '30 * * * *', '*/15 * * * *', '*/15 2 * * *',
  '15 1-3 * * *', '0 */2 * * *', '45 23 * * 6', '30 2 29 3 *', '0 12 L * *', '*/30 0 0 * * *',
];
const ZONES = [
  'UTC', 'Asia/Ho_Chi_Minh', 'Asia/Kathmandu', 'Europe/Paris', 'Europe/London', 'Europe/Lisbon', 'America/New_York', 'America/Los_Angeles',
  'America/St_Johns', 'America/Havana', 'America/Nuuk', 'America/Santiago', 'Atlantic/Azores', 'Africa/Cairo', 'Asia/Beirut', 'Asia/Jerusalem',
  'Australia/Sydney', 'Australia/Adelaide', 'Australia/Lord_Howe', 'Pacific/Auckland', 'Pacific/Chatham', 'Antarctica/Troll',
];
const PLAIN = ['5/15 9-17/4 * * *', '0 0 */2 * 1', '0 0 1-31 * 1', '0 0 15 * ?', '0 0 29 2 *', '0 0 * * 5L', '0 0 * * FRI#2', '0 0 * JAN-MAR MON',
  '0 0 * * 1-7', '@weekly', '*/7 * * * *', '0 0 L,15 * *', '0 0 31 * *', '*/20 * * * * *'];
const COUNTS = { '*/15 * * * *': 28, '30 * * * *': 9, '*/15 2 * * *': 9, '15 1-3 * * *': 7 };
const HOUR = 3600_000;

function offsetOf(zone, millis) {
  const format = new Intl.DateTimeFormat('en', { timeZone: zone, timeZoneName: 'longOffset' });
  return format.formatToParts(millis).find((part) => part.type === 'timeZoneName').value;
}

function changes(zone) {
  const found = [];
  for (let at = Date.UTC(2026, 0, 1); at < Date.UTC(2027, 0, 1); at += 24 * HOUR) {
    let hour = at;
    while (hour < at + 24 * HOUR && offsetOf(zone, at) === offsetOf(zone, hour)) hour += HOUR;
    if (hour < at + 24 * HOUR) found.push(hour - 4 * HOUR);
  }
  return found;
}

function ask(pattern, zone, after, count) {
  try {
    const parsed = CronExpressionParser.parse(pattern, { tz: zone, currentDate: new Date(after) });
    return parsed.take(count).map((date) => date.toDate().toISOString().replace('.000Z', 'Z'));
  } catch (error) {
    return [];
  }
}

const cases = [];
for (const zone of ZONES) {
  for (const after of [...changes(zone), Date.UTC(2026, 5, 15)]) {
    for (const pattern of PATTERNS) {
      cases.push([pattern, zone, new Date(after).toISOString().replace('.000Z', 'Z'), COUNTS[pattern] ?? 5, ask(pattern, zone, after, COUNTS[pattern] ?? 5)]);
    }
  }
}
for (const pattern of PLAIN) cases.push([pattern, 'UTC', '2026-01-01T00:00:30Z', 8, ask(pattern, 'UTC', '2026-01-01T00:00:30Z', 8)]);
console.log(`{"cron-parser": "${version}", "cases": [`);
console.log(cases.map((one) => JSON.stringify(one)).join(',\n'));
console.log(']}');
