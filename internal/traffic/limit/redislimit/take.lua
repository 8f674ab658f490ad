-- Admits a request in all of its accounts or in none. KEYS are, per account, a
-- hash with its buckets and a sorted set of the slots that are held. ARGV: the
-- request's id, how long a slot is held without a sign of life (ms), the
-- tokens, then per account: requests/min, tokens/min, concurrency, tokens/day,
-- window (s). The rules are those of package limit, word for word; what a
-- refusal says is worked out there, from the figures that this returns.
local id, lease, tokens = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local today = math.floor(tonumber(clock[1]) / 86400)
local slack = 1e-6

local function capacity(per_minute, window)
  return math.max(1, per_minute * window / 60)
end

local function level(value, at, per_minute, window)
  local full = capacity(per_minute, window)
  if not value then return full end
  return math.min(full, math.max(-full, tonumber(value)) + math.max(0, now - tonumber(at)) / 1000000 * per_minute / 60)
end

local accounts, admitted = {}, 1
for i = 1, #KEYS / 2 do
  local a, base = {}, 3 + (i - 1) * 5
  a.hash, a.slots = KEYS[2 * i - 1], KEYS[2 * i]
  a.rpm, a.tpm, a.most, a.tpd, a.window =
    tonumber(ARGV[base + 1]), tonumber(ARGV[base + 2]), tonumber(ARGV[base + 3]), tonumber(ARGV[base + 4]), tonumber(ARGV[base + 5])
  local was = redis.call('HMGET', a.hash, 'r', 'ra', 't', 'ta', 'd', 'du')
  a.requests, a.tokens = level(was[1], was[2], a.rpm, a.window), level(was[3], was[4], a.tpm, a.window)
  a.used = 0
  if tonumber(was[5] or -1) == today then a.used = tonumber(was[6]) end
  redis.call('ZREMRANGEBYSCORE', a.slots, '-inf', math.floor(now / 1000))
  a.held = redis.call('ZCARD', a.slots)
  a.need, a.today = math.min(tokens, capacity(a.tpm, a.window)), math.min(tokens, a.tpd)
  if (a.rpm > 0 and a.requests < 1 - slack) or (a.tpm > 0 and a.tokens < a.need - slack)
    or (a.most > 0 and a.held >= a.most) or (a.tpd > 0 and a.used + a.today > a.tpd) then
    admitted = 0
  end
  accounts[i] = a
end

local out = { admitted, string.format('%.0f', now) }
for _, a in ipairs(accounts) do
  out[#out + 1] = string.format('%.17g', a.requests)
  out[#out + 1] = string.format('%.17g', a.tokens)
  out[#out + 1] = string.format('%.0f', a.used)
  out[#out + 1] = string.format('%.0f', a.held)
end
if admitted == 0 then return out end

for _, a in ipairs(accounts) do
  local rest = 2 * a.window
  if a.rpm > 0 then
    redis.call('HSET', a.hash, 'r', string.format('%.17g', a.requests - 1), 'ra', string.format('%.0f', now))
  end
  if a.tpm > 0 then
    redis.call('HSET', a.hash, 't', string.format('%.17g', a.tokens - a.need), 'ta', string.format('%.0f', now))
  end
  if a.tpd > 0 then
    redis.call('HSET', a.hash, 'd', today, 'du', string.format('%.0f', a.used + a.today))
    rest = 2 * 86400
  end
  if redis.call('TTL', a.hash) < rest then redis.call('EXPIRE', a.hash, rest) end
  redis.call('ZADD', a.slots, math.floor(now / 1000) + lease, id)
  redis.call('PEXPIRE', a.slots, 2 * lease)
end
return out
