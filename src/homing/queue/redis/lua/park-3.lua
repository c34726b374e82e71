--[[
  park: note that a delayed job waits for a worker that knows its kind.
  KEYS: delayed (BullMQ's set of delayed jobs), the kinds of parked jobs, the parked jobs of this kind
  ARGV: job id; label of the kind; now, as a score of delayed jobs; how long the two notes live without a new one, in ms
  Result: 1, or 0 when the job is not delayed any more
  Each note has the score under which the job is delayed: one that differs is out of date. Notes that are past are dropped here.
]]
local score = redis.call("ZSCORE", KEYS[1], ARGV[1])
for note = 2, 3 do
  redis.call("ZREMRANGEBYSCORE", KEYS[note], "-inf", "(" .. ARGV[3])
end
if not score then
  return 0
end
redis.call("ZADD", KEYS[2], "GT", score, ARGV[2])
redis.call("ZADD", KEYS[3], score, ARGV[1])
redis.call("PEXPIRE", KEYS[2], ARGV[4])
redis.call("PEXPIRE", KEYS[3], ARGV[4])
return 1
