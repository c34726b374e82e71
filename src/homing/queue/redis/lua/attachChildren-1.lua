--[[
  attachChildren: jobs that exist already become children of a parent, or count as what they came to; then a parent that has nothing left to
    wait for goes on.
  KEYS: the parent
  ARGV: its id; what the keys of its queue start with, without the last colon; now, in ms; then four words for each child: its key, what the
    keys of its queue start with, its id, and the record of its parent, empty to keep the one it has
  Result: -5 when the parent is not there; else whether the parent went on (1 or 0), and for each child: 1 = its end is waited for,
    2 = it has ended and counts, 0 = there is no such job and it does not count (any more), -7 = another parent waits for it
  What a death means is in the child's record of its parent, as in BullMQ's own finish; one that says nothing is waited for still.
]]
local parent, id, queue, now = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local dependencies = parent .. ":dependencies"
if redis.call("EXISTS", parent) == 0 then
  return -5
end
local released = 0

local function is_idle(queue_key)
  local limits = redis.call("HMGET", queue_key .. ":meta", "paused", "concurrency")
  return limits[1] or (limits[2] and redis.call("LLEN", queue_key .. ":active") >= tonumber(limits[2]))
end

local function release()
  if redis.call("ZREM", queue .. ":waiting-children", id) == 0 then
    return
  end
  released = 1
  local terms = redis.call("HMGET", parent, "priority", "delay")
  local priority, delay = tonumber(terms[1]) or 0, tonumber(terms[2]) or 0
  if delay > 0 then
    local due = tonumber(now) + delay
    redis.call("ZADD", queue .. ":delayed", due * 0x1000, id)
    redis.call("XADD", queue .. ":events", "*", "event", "delayed", "jobId", id, "delay", due)
    local first = redis.call("ZRANGE", queue .. ":delayed", 0, 0, "WITHSCORES")
    redis.call("ZADD", queue .. ":marker", tonumber(first[2]) / 0x1000, "1")
    return
  end
  if priority > 0 then
    local turn = redis.call("INCR", queue .. ":pc")
    redis.call("ZADD", queue .. ":prioritized", priority * 0x100000000 + turn % 0x100000000, id)
  else
    redis.call("RPUSH", queue .. ":wait", id)
  end
  if not is_idle(queue) then
    redis.call("ZADD", queue .. ":marker", 0, "0")
  end
  redis.call("XADD", queue .. ":events", "*", "event", "waiting", "jobId", id, "prev", "waiting-children")
end

local function read(record)
  local ok, value = pcall(cjson.decode, record or "")
  return ok and type(value) == "table" and value or {}
end

local function waits(other, record)
  local words = read(record)
  return words["queueKey"] and redis.call("ZSCORE", words["queueKey"] .. ":waiting-children", words["id"] or "") and true
    or redis.call("EXISTS", other .. ":lock") == 1
end

local function bury(child, record, reason)
  local means = read(record)
  if not (means["fpof"] or means["cpof"] or means["idof"] or means["rdof"]) then
    redis.call("SADD", dependencies, child)
    return 1
  end
  redis.call("SREM", dependencies, child)
  if means["fpof"] then
    redis.call("ZADD", parent .. ":unsuccessful", now, child)
    redis.call("HSET", parent, "defa", "child " .. child .. " failed")
  elseif means["cpof"] or means["idof"] then
    redis.call("HSET", parent .. ":failed", child, reason)
  end
  if means["fpof"] or means["cpof"] then
    release()
  end
  return 2
end

local function attach(child, base, child_id, record)
  local job = redis.call("HMGET", child, "name", "finishedOn", "parentKey", "parent", "returnvalue", "failedReason")
  if not job[1] then
    redis.call("SREM", dependencies, child)
    return 0
  end
  if job[3] and job[3] ~= parent and waits(job[3], job[4]) then
    return -7
  end
  if record == "" then
    record = job[4]
  else
    redis.call("HSET", child, "parentKey", parent, "parent", record)
  end
  if not job[2] then
    redis.call("SADD", dependencies, child)
    return 1
  end
  if redis.call("ZSCORE", base .. "failed", child_id) then
    return bury(child, record, job[6] or "")
  end
  redis.call("SREM", dependencies, child)
  redis.call("HSET", parent .. ":processed", child, job[5] or "null")
  return 2
end

local found = {}
for word = 4, #ARGV, 4 do
  found[#found + 1] = attach(ARGV[word], ARGV[word + 1], ARGV[word + 2], ARGV[word + 3])
end
if redis.call("SCARD", dependencies) == 0 then
  release()
end
return {released, found}
