--[[
  finishAndClaim: end some jobs as completed and lease as many next ones, as BullMQ's own scripts would in as many calls each.
  KEYS: wait, active, prioritized, events, stalled, limiter, delayed, meta, pc, completed, marker (all of them BullMQ's)
  ARGV: what all keys of the queue start with; now, in ms; how many jobs to end; the most jobs to lease; token of the new leases, to
    which each lease adds its number; their length, in ms; the worker's name; max and duration (ms) of its limit, or two empty texts;
    how long (ms) and how many completed jobs are kept, each or an empty text; then four of each job to end: id, token, result, mark
  Result: {endings, left of the limit, next delayed job, lease, lease, ...}; the two in ms, 0 for none. An ending is what
    moveToFinished answers, or 1: this job needs moveToFinished and was not touched. A lease is id, name, data, opts, timestamp, ats,
    atm, stc, homing, defa.
  Everything is looked at before the first write. What is asked of all jobs is asked once; jobs with a family, with a de-duplication id, or
  with numbers that are none are left to moveToFinished; and so is the last job where earlier ones are to be removed, which is done there.
]]
local rcall = redis.call
local wait, active, prioritized, events, stalled, limiter, delayed, meta, pc, completed, marker = unpack(KEYS)
local prefix, now, count, most = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local token, leaseMs, worker, limitMax, limitMs, keptMs, keptJobs = unpack(ARGV, 5, 11)
local terms = rcall("HMGET", meta, "paused", "concurrency", "max", "duration", "opts.maxLenEvents")

-- A counter as a job has it, 0 where it has none; nil for what is no number.
local function counted(text)
  if not text then
    return 0
  end
  return string.match(text, "^%d+$") and tonumber(text)
end

-- Whether completed jobs are to be removed, once so many more are.
local function removes(more)
  if keptJobs ~= "" and rcall("ZCARD", completed) + more > tonumber(keptJobs) then
    return true
  end
  if keptMs == "" then
    return false
  end
  return keptMs == "0" or #rcall("ZRANGEBYSCORE", completed, "-inf", now - keptMs, "LIMIT", 0, 1) > 0
end

-- What becomes of each job that shall end, and which of them end here: {place, id, key, result, mark, attempts made}.
local function judge()
  local endings, ending, locks, families = {}, {}, {}, {}
  for place = 1, count do
    local key = prefix .. ARGV[8 + 4 * place]
    locks[place] = key .. ":lock"
    families[2 * place - 1], families[2 * place] = key .. ":dependencies", key .. ":unsuccessful"
  end
  local held = rcall("MGET", unpack(locks))
  local anyFamily = rcall("EXISTS", unpack(families)) > 0
  for place = 1, count do
    local id, own, result, mark = unpack(ARGV, 8 + 4 * place, 11 + 4 * place)
    local key = prefix .. id
    local job = rcall("HMGET", key, "ats", "atm", "parentKey", "deid")
    local made = counted(job[2])
    if not job[1] and rcall("EXISTS", key) == 0 then
      endings[place] = -1
    elseif job[3] or job[4] or not made
      or (anyFamily and rcall("EXISTS", families[2 * place - 1], families[2 * place]) > 0) then
      endings[place] = 1
    elseif held[place] ~= own then
      endings[place] = held[place] and -6 or -2
    else
      endings[place] = 0
      ending[#ending + 1] = {place, id, key, result, mark, made}
    end
  end
  if #ending > 0 and removes(#ending) then
    endings[table.remove(ending)[1]] = 1
  end
  return endings, ending
end

-- Takes jobs from the active ones: in one cut where they are the oldest of them, as is usual. Which of them were there.
local function leave(ids)
  local were, oldest, areOldest = {}, {}, true
  for _, id in ipairs(rcall("LRANGE", active, -#ids, -1)) do
    oldest[id] = true
  end
  for at, id in ipairs(ids) do
    areOldest = areOldest and oldest[id]
    were[at], oldest[id] = true, nil
  end
  if areOldest then
    rcall("LTRIM", active, 0, -#ids - 1)
  else
    for at, id in ipairs(ids) do
      were[at] = rcall("LREM", active, -1, id) > 0
    end
  end
  return were
end

local function finish(endings, ending)
  local locks, ids, scores = {}, {}, {}
  for at, job in ipairs(ending) do
    locks[at], ids[at] = job[3] .. ":lock", job[2]
  end
  rcall("DEL", unpack(locks))
  rcall("SREM", stalled, unpack(ids))
  if not terms[5] then
    rcall("HSET", meta, "opts.maxLenEvents", 10000)
  end
  rcall("XTRIM", events, "MAXLEN", "~", terms[5] or 10000)
  local were = leave(ids)
  for at, job in ipairs(ending) do
    local place, id, key, result, mark, made = unpack(job)
    if not were[at] then
      endings[place] = -3
      if mark ~= "" then
        rcall("HSET", key, "homing", mark)
      end
    else
      if mark == "" then
        rcall("HSET", key, "atm", made + 1, "returnvalue", result, "finishedOn", now)
      else
        rcall("HSET", key, "homing", mark, "atm", made + 1, "returnvalue", result, "finishedOn", now)
      end
      rcall("XADD", events, "*", "event", "completed", "jobId", id, "returnvalue", result, "prev", "active")
      scores[#scores + 1] = now
      scores[#scores + 1] = id
    end
  end
  if #scores > 0 then
    rcall("ZADD", completed, unpack(scores))
  end
  return #scores / 2
end

-- As many as a thousand at once; whether there may be more.
local function promote(room)
  local due = rcall("ZRANGEBYSCORE", delayed, 0, (now + 1) * 0x1000 - 1, "LIMIT", 0, 1000)
  if #due == 0 then
    return false
  end
  rcall("ZREM", delayed, unpack(due))
  for _, id in ipairs(due) do
    local key = prefix .. id
    local priority = tonumber(rcall("HGET", key, "priority")) or 0
    if priority == 0 then
      rcall("LPUSH", wait, id)
    else
      rcall("ZADD", prioritized, priority * 0x100000000 + rcall("INCR", pc) % 0x100000000, id)
    end
    rcall("XADD", events, "*", "event", "waiting", "jobId", id, "prev", "delayed")
    rcall("HSET", key, "delay", 0)
  end
  if room > 0 then
    rcall("ZADD", marker, 0, "0")
  end
  return #due == 1000
end

-- The time left of a limit that is used up; 0 while there are permits.
local function used(max)
  if max > tonumber(rcall("GET", limiter) or 0) then
    return 0
  end
  local left = rcall("PTTL", limiter)
  if left == 0 then
    rcall("DEL", limiter)
  end
  return math.max(left, 0)
end

-- Up to `wanted` ids, moved to the active ones.
local function take(wanted)
  local ids = {}
  for _, id in ipairs(rcall("RPOP", wait, wanted) or {}) do
    if string.sub(id, 1, 2) ~= "0:" then -- a marker of old versions of BullMQ
      ids[#ids + 1] = id
    end
  end
  if #ids < wanted then
    local first = rcall("ZPOPMIN", prioritized, wanted - #ids)
    for at = 1, #first, 2 do
      ids[#ids + 1] = first[at]
    end
    if #ids < wanted then
      rcall("DEL", pc)
    end
  end
  if #ids > 0 then
    rcall("LPUSH", active, unpack(ids))
  end
  return ids
end

local function lease(id, number, max)
  local key = prefix .. id
  local job = redis.pcall("HMGET", key, "name", "data", "opts", "timestamp", "ats", "atm", "stc", "homing", "defa")
  local starts = not job.err and counted(job[5])
  if not starts then
    return nil -- nothing that can run: nobody holds it, so that it is taken for stalled
  end
  if max and not job[9] and rcall("INCR", limiter) == 1 then
    rcall("PEXPIRE", limiter, math.floor(math.abs(limitMs ~= "" and limitMs or terms[4])))
  end
  rcall("SET", key .. ":lock", token .. "-" .. number, "PX", leaseMs)
  rcall("XADD", events, "*", "event", "active", "jobId", id, "prev", "waiting")
  job[5] = string.format("%.0f", starts + 1)
  if worker == "" then
    rcall("HSET", key, "processedOn", now, "ats", job[5])
  else
    rcall("HSET", key, "processedOn", now, "pb", worker, "ats", job[5])
  end
  table.insert(job, 1, id)
  return job
end

-- Adds up to `most` leases to the reply; how many, and whether there is nothing else, now or later.
local function claim(reply)
  local max, leased = tonumber(terms[3] or limitMax), 0
  local room = terms[1] and 0 or most
  if terms[2] and room > 0 then
    room = math.min(room, math.max(0, tonumber(terms[2]) - rcall("LLEN", active)))
  end
  local more = promote(room)
  while true do
    if leased == most then
      return leased, false
    end
    reply[2] = max and used(max) or 0
    if reply[2] > 0 or leased == room then
      return leased, false
    end
    local ids = take(max and 1 or room - leased)
    for _, id in ipairs(ids) do
      local job = lease(id, leased + 1, max)
      if job then
        leased = leased + 1
        reply[3 + leased] = job
      end
    end
    if #ids == 0 and not more then
      break
    end
    more = #ids == 0 and promote(room)
  end
  local due = rcall("ZRANGE", delayed, 0, 0, "WITHSCORES")[2]
  reply[3] = due and tonumber(due) / 0x1000 or 0
  return leased, not due
end

local endings, ending, finished = {}, {}, 0
if count > 0 then
  endings, ending = judge()
end
if #ending > 0 then
  finished = finish(endings, ending)
end
local reply = {endings, 0, 0}
most = math.max(0, most - (count - finished)) -- each job that ends here makes room for one
local leased, nothing = claim(reply)
if leased > 0 and rcall("EXISTS", wait, prioritized, delayed) > 0 then
  rcall("ZADD", marker, 0, "0")
end
if finished > 0 and leased == 0 and nothing and rcall("LLEN", active) == 0 then
  rcall("XADD", events, "*", "event", "drained")
end
return reply
