--[[
  releaseParent: a job that waits for children waits to be claimed instead, whatever they came to.
  KEYS: the jobs of the queue that wait for children, the job
  ARGV: the job's id; what the keys of its queue start with, without the last colon; 1 to let it fail as if a child of it had failed
  Result: 1, or 0 when it does not wait for children
  It goes to the front of the line: whoever runs it, or its ledger, decides what becomes of it.
]]
local id, queue = ARGV[1], ARGV[2]
if redis.call("ZREM", KEYS[1], id) == 0 then
  return 0
end
if ARGV[3] == "1" then
  local child = redis.call("SRANDMEMBER", KEYS[2] .. ":dependencies") or "that nobody knows"
  redis.call("HSET", KEYS[2], "defa", "child " .. child .. " failed")
end
redis.call("RPUSH", queue .. ":wait", id)
redis.call("ZADD", queue .. ":marker", 0, "0")
redis.call("XADD", queue .. ":events", "*", "event", "waiting", "jobId", id, "prev", "waiting-children")
return 1
