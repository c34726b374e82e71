--[[
  permit: whether a job may start now under the limit of its key; a start that is permitted is counted.
  KEYS: the key's state (window: when it began, starts: in it, paused: until when), the jobs that were sent away with their times
  ARGV: job id; now, in ms; the most starts in a window, 0 for a key without a rate; the length of a window, in ms; how long what is
    past is kept, in ms
  Result: 0, or how long the job must wait, in ms
  Windows follow each other without a gap while there are jobs. Whoever was sent away has his turn at his time; whoever comes new stands
  behind all of them. A job that never comes back is forgotten after a while.
]]
local id, now, jobs, length, kept = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local state = redis.call("HMGET", KEYS[1], "window", "starts", "paused")
local window, starts, paused = tonumber(state[1] or 0), tonumber(state[2] or 0), tonumber(state[3] or 0)
if jobs == 0 then
  return math.max(0, paused - now)
end
redis.call("ZREMRANGEBYSCORE", KEYS[2], "-inf", "(" .. (now - kept))
local rank = redis.call("ZRANK", KEYS[2], id)
local line = redis.call("ZCARD", KEYS[2])
if paused <= now then
  if now >= window + length then
    window = now < window + 2 * length and window + length or now
    starts = 0
  end
  if starts + (rank and 0 or line) < jobs then
    redis.call("HSET", KEYS[1], "window", window, "starts", starts + 1)
    redis.call("PEXPIRE", KEYS[1], window + length - now + kept)
    redis.call("ZREM", KEYS[2], id)
    return 0
  end
end
local turn = math.max(window + length, paused) + math.floor((rank or line) / jobs) * length
redis.call("ZADD", KEYS[2], turn, id)
redis.call("PEXPIRE", KEYS[1], turn - now + length + kept)
redis.call("PEXPIRE", KEYS[2], turn - now + length + kept)
return turn - now
