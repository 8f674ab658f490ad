-- Gives a request's slots back and puts the tokens that it used in the place
-- of those that it reserved. KEYS as of the other script. ARGV: the request's
-- id, the tokens used, then per account: tokens/min, tokens/day, window (s),
-- tokens reserved, and the day of that. One that holds no slot was settled
-- before, or was given up for dead: its reservation stays spent.
local id, used = ARGV[1], tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local known = 0
for i = 1, #KEYS / 2 do
  local hash, slots, base = KEYS[2 * i - 1], KEYS[2 * i], 2 + (i - 1) * 5
  local tpm, tpd, window, reserved, day =
    tonumber(ARGV[base + 1]), tonumber(ARGV[base + 2]), tonumber(ARGV[base + 3]), tonumber(ARGV[base + 4]), tonumber(ARGV[base + 5])
  if redis.call('ZREM', slots, id) == 1 then
    known = 1
    local was = redis.call('HMGET', hash, 't', 'ta', 'd', 'du')
    if tpm > 0 and was[1] then
      local full = math.max(1, tpm * window / 60)
      local level = math.min(full, math.max(-full, tonumber(was[1])) + math.max(0, now - tonumber(was[2])) / 1000000 * tpm / 60)
      level = math.max(-full, math.min(full, level + math.min(reserved, full) - used))
      redis.call('HSET', hash, 't', string.format('%.17g', level), 'ta', string.format('%.0f', now))
      -- A debt is not forgotten before the refill has paid it.
      local rest = math.ceil((full - level) * 60 / tpm) + 1
      if redis.call('TTL', hash) < rest then redis.call('EXPIRE', hash, rest) end
    end
    if tpd > 0 and tonumber(was[3] or -1) == day then
      redis.call('HSET', hash, 'du', string.format('%.0f', math.max(0, tonumber(was[4]) + used - math.min(reserved, tpd))))
    end
  end
end
return known
