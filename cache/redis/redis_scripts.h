// SPDX-License-Identifier: MIT
// What a server of Redis does in one step: scripts in Lua.
//
// The keys of one address have a hash tag in common, so they lie on one server of a Redis Cluster:
//   {address}:lease   hash: owner, token; it expires with the lease
//   {address}:fence   the newest token; expires long after every lease
//   {address}:row     hash: the fence, and the record
// The key "born" holds when it was made: a server that lost its keys has a new one. Two keys beside
// it count the daemons that asked for it, one in each even minute and one in each odd minute, as a
// HyperLogLog (12 KiB, right to 1 %). Tokens are the last token plus one, or the server's clock in
// microseconds if that is greater (2^53 is far away), so a server that lost its keys does not grant
// an old token again. A token or a fence that cannot be true (a year in the future,
// cache/base/lease/tokens.h) counts as none, and so does a lease that does not end within an hour:
// somebody else wrote it, and it blocks nobody.
#pragma once

#include <string_view>

namespace uopd::cache {

// KEYS: lease, fence. ARGV: owner, time to live in ms. {1, token} or {0, holder}.
inline constexpr std::string_view kTryLeaseScript = R"lua(
local holder = redis.call('HGET', KEYS[1], 'owner')
local left = redis.call('PTTL', KEYS[1])
if holder and left >= 0 and left <= 3600000 then return {0, holder} end
local now = redis.call('TIME')
local token = tonumber(now[1]) * 1000000 + tonumber(now[2])
local last = tonumber(redis.call('GET', KEYS[2]) or '0') or 0
if not (last >= 0 and last <= token + 31536000000000) then last = 0 end
if token <= last then token = last + 1 end
local text = string.format('%.0f', token)
redis.call('SET', KEYS[2], text, 'PX', 604800000)
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'token', text)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {1, text}
)lua";

// KEYS: lease, fence. ARGV: token, time to live in ms, owner. 1: renewed; 0: the lease is not this
// one. A server that lost its keys, the fence too, takes the owner's word: nobody has a newer
// token.
inline constexpr std::string_view kRenewScript = R"lua(
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then return 0 end
  redis.call('SET', KEYS[2], ARGV[1], 'PX', 604800000)
  redis.call('HSET', KEYS[1], 'owner', ARGV[3], 'token', ARGV[1])
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
)lua";

// KEYS: lease, fence. ARGV: token. 1: released or expired before; 0: taken over.
inline constexpr std::string_view kReleaseScript = R"lua(
if redis.call('HGET', KEYS[1], 'token') == ARGV[1] then redis.call('DEL', KEYS[1]) end
local last = redis.call('GET', KEYS[2])
if last and last ~= ARGV[1] then return 0 end
return 1
)lua";

// KEYS: row. ARGV: fence, record, time to live in ms. 1: put; 0: a record with a greater fence
// stays.
inline constexpr std::string_view kPutScript = R"lua(
local there = tonumber(redis.call('HGET', KEYS[1], 'fence') or '-1') or -1
if there > tonumber(ARGV[1]) then
  local now = redis.call('TIME')
  if there <= tonumber(now[1]) * 1000000 + 31536000000000 then return 0 end
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'record', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
)lua";

// KEYS: born, daemons of even minutes, daemons of odd minutes. ARGV: the number of this daemon.
// Returns three values: when the key was made, as text; how many microseconds ago; how many daemons
// asked in this minute or in the one before, whichever is more. The key is made if it is missing,
// or holds no time of the past: somebody else wrote it, or the server has another clock. The count
// of a minute ends two minutes after the minute began.
inline constexpr std::string_view kAgeScript = R"lua(
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local there = redis.pcall('GET', KEYS[1])
local born = type(there) == 'string' and tonumber(there) or 0
if not (born >= 1 and born <= now) then
  born = now
  redis.call('SET', KEYS[1], string.format('%.0f', born))
end
local minute = math.floor(tonumber(time[1]) / 60)
local this, last = KEYS[2 + minute % 2], KEYS[3 - minute % 2]
if redis.pcall('PFADD', this, ARGV[1]) == 1 and redis.call('PTTL', this) < 0 then
  redis.call('EXPIREAT', this, (minute + 2) * 60)
end
local daemons = 0
for _, key in ipairs({this, last}) do
  local count = redis.pcall('PFCOUNT', key)
  if type(count) == 'number' and count > daemons then daemons = count end
end
return {string.format('%.0f', born), now - born, daemons}
)lua";

}  // namespace uopd::cache
