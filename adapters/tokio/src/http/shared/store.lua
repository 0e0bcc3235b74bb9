-- What a RedisStore does with its sessions, one step at a time. All keys begin with KEYS[1] and lie on one node.
--
--   :ends            sessions by the time at which they end
--   :info            what is counted of each session: its fields, messages, parts, and whose it is
--   :held            bytes of each holder
--   :bytes           bytes of all of them
--   :used:<holder>   sessions in the order in which they give way: those whose clients have not come back first
--   :kept:<holder>   sessions of which messages are kept, by the time of the last one
--   :s:<id>          the fields of a session
--   :l:<id>          its messages and the ends of its streams, the oldest first: stream, number, bytes, until when
--   :m:<id>          what its messages say, and for the end of a stream the number of the last message
--   :e:<id>          the last streams that have ended, the latest first
--   :o:<id>          the processes of its last parts, by the number of the part
--   :p:<process>     exists while the process renews it
--   :left:<process>  exists for some time after the process has left, and no entry of it is made then
--   :t:<task>        the process of a task, its state, and how often that has changed
--   :q:<process>     commands that wait for the tasks of a process: task, command
--   :qb:<process>    their bytes
--
-- Times are microseconds.
local prefix, op, id = KEYS[1], ARGV[1], ARGV[2]
local each, total, steps = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local SESSION, MESSAGE, ENDED, PARTS, FRESH, END = 1024, 128, 64, 32, 4e15, '18446744073709551615'

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])

local function text(number) return string.format('%.0f', number) end
local function session(it) return prefix .. ':s:' .. it end
local function log(it) return prefix .. ':l:' .. it end
local function messages(it) return prefix .. ':m:' .. it end
local function ended(it) return prefix .. ':e:' .. it end
local function owners(it) return prefix .. ':o:' .. it end
local function process(name) return prefix .. ':p:' .. name end
local function left(name) return prefix .. ':left:' .. name end
local function used(holder) return prefix .. ':used:' .. holder end
local function kept(holder) return prefix .. ':kept:' .. holder end

-- What is counted must not be forgotten before the sessions that it is counted of.
local function lives(key, life)
    if redis.call('PTTL', key) < life then redis.call('PEXPIRE', key, text(life)) end
end

local function read(it)
    local line = redis.call('HGET', prefix .. ':info', it)
    if not line then return nil end
    local fields, bytes, count, parts, holder = string.match(line, '^(%d+) (%d+) (%d+) (%d+) (.*)$')
    return {
        fields = tonumber(fields), bytes = tonumber(bytes), count = tonumber(count), parts = tonumber(parts), holder = holder,
    }
end

local function write(it, info)
    local line = string.format('%.0f %.0f %.0f %.0f %s', info.fields, info.bytes, info.count, info.parts, info.holder)
    redis.call('HSET', prefix .. ':info', it, line)
end

local function recount(holder, more)
    if more == 0 then return end
    redis.call('INCRBY', prefix .. ':bytes', text(more))
    if tonumber(redis.call('ZINCRBY', prefix .. ':held', text(more), holder)) <= 0 then
        redis.call('ZREM', prefix .. ':held', holder)
    end
end

-- Forgets the oldest message of a session.
local function forget_first(it, info)
    local line = redis.call('LPOP', log(it))
    if not line then
        -- It was kept for long enough, and all of them were.
        recount(info.holder, -info.bytes - info.count * MESSAGE)
        info.bytes, info.count = 0, 0
        return
    end
    local number, seq, bytes = string.match(line, '^(%d+) (%d+) (%d+)')
    redis.call('HDEL', messages(it), number .. '-' .. seq)
    info.bytes, info.count = info.bytes - tonumber(bytes), info.count - 1
    recount(info.holder, -tonumber(bytes) - MESSAGE)
end

-- Forgets all messages of a session.
local function forget_all(it, info)
    redis.call('DEL', log(it), messages(it))
    redis.call('ZREM', kept(info.holder), it)
    recount(info.holder, -info.bytes - info.count * MESSAGE)
    info.bytes, info.count = 0, 0
end

local function stop(it)
    local info = read(it)
    if info then
        forget_all(it, info)
        recount(info.holder, -SESSION - info.fields)
        redis.call('ZREM', used(info.holder), it)
        redis.call('HDEL', prefix .. ':info', it)
    end
    redis.call('DEL', session(it), ended(it), owners(it))
    redis.call('ZREM', prefix .. ':ends', it)
end

-- Has the messages of one session of a holder give way, or else, if it may end, a session.
local function give_way(holder, may_end)
    local first = redis.call('ZRANGE', kept(holder), 0, 0)[1]
    if first then
        local info = read(first)
        if info then
            forget_all(first, info)
            write(first, info)
        else
            redis.call('ZREM', kept(holder), first)
        end
        return true
    end
    first = redis.call('ZRANGE', used(holder), 0, 0)[1]
    if not first or not may_end then return false end
    stop(first)
    redis.call('ZREM', used(holder), first)
    return true
end

local function make_room(holder, more, may_end)
    if more > total or (holder ~= '' and more > each) then return false end
    for _ = 1, steps do
        local held = tonumber(redis.call('ZSCORE', prefix .. ':held', holder) or '0')
        local of
        if holder ~= '' and held + more > each then
            of = holder
        elseif tonumber(redis.call('GET', prefix .. ':bytes') or '0') + more > total then
            of = redis.call('ZREVRANGE', prefix .. ':held', 0, 0)[1]
        end
        if not of then return true end
        -- If those with most have no messages, there are those of this client.
        if not give_way(of, may_end) and (of == holder or not give_way(holder, false)) then return false end
    end
    return false
end

-- Ends sessions that were not used for as long as they live, at most `steps` of them. The next step ends the rest.
for _, it in ipairs(redis.call('ZRANGEBYSCORE', prefix .. ':ends', '-inf', text(now), 'LIMIT', 0, steps)) do stop(it) end

local function lasts(it, holder, life)
    redis.call('PEXPIRE', session(it), text(life))
    redis.call('PEXPIRE', ended(it), text(life))
    redis.call('PEXPIRE', owners(it), text(life))
    redis.call('ZADD', prefix .. ':ends', text(now + life * 1000), it)
    -- Longer than the session, so that it is known when it has ended.
    for _, key in ipairs({':ends', ':info', ':held', ':bytes'}) do lives(prefix .. key, life + 60000) end
    lives(used(holder), life + 60000)
end

-- Notes that a process runs, unless it has left.
local function runs(name, lease)
    if redis.call('EXISTS', left(name)) == 0 then redis.call('SET', process(name), '', 'PX', lease) end
end

-- Records the process of a part, for as long as the process says that it runs.
local function owns(it, part, name, lease)
    runs(name, lease)
    redis.call('HSET', owners(it), part, name)
    redis.call('HDEL', owners(it), part - PARTS)
end

if op == 'begin' then
    local life, holder, fields, name, lease = tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[8]), ARGV[9], ARGV[10]
    stop(id)
    if not make_room(holder, SESSION + fields, true) then return 0 end
    redis.call('HSET', session(id), unpack(ARGV, 11))
    owns(id, 0, name, lease)
    write(id, {fields = fields, bytes = 0, count = 0, parts = 0, holder = holder})
    recount(holder, SESSION + fields)
    redis.call('ZADD', used(holder), text(now - FRESH), id)
    lasts(id, holder, life)
    return 1
end

local function task(it) return prefix .. ':t:' .. it end
local function commands(name) return prefix .. ':q:' .. name end
local function command_bytes(name) return prefix .. ':qb:' .. name end

if op == 'task' then
    local name, life, lease, revision, state = ARGV[6], ARGV[7], ARGV[8], tonumber(ARGV[9]), ARGV[10]
    runs(name, lease)
    local before = redis.call('HGET', task(id), 'revision')
    if before and tonumber(before) > revision then return 0 end
    redis.call('HSET', task(id), 'process', name, 'revision', ARGV[9], 'state', state)
    redis.call('PEXPIRE', task(id), life)
    return 1
elseif op == 'task-find' then
    -- The state, and a mark if the process runs.
    local name, state = unpack(redis.call('HMGET', task(id), 'process', 'state'))
    if not state then return {} end
    if redis.call('EXISTS', process(name)) == 0 then return {state} end
    return {state, ''}
elseif op == 'task-remove' then
    return redis.call('DEL', task(id))
elseif op == 'task-send' then
    local command, most = ARGV[6], tonumber(ARGV[7])
    local name = redis.call('HGET', task(id), 'process')
    if not name or redis.call('EXISTS', process(name)) == 0 then return 'gone' end
    local line = id .. ' ' .. command
    if tonumber(redis.call('GET', command_bytes(name)) or '0') + #line > most then return 'full' end
    redis.call('RPUSH', commands(name), line)
    redis.call('INCRBY', command_bytes(name), #line)
    for _, key in ipairs({commands(name), command_bytes(name)}) do redis.call('PEXPIRE', key, 60000) end
    return name
elseif op == 'task-receive' then
    local received = redis.call('LRANGE', commands(id), 0, 63)
    redis.call('LTRIM', commands(id), #received, -1)
    local bytes = 0
    for _, line in ipairs(received) do bytes = bytes + #line end
    if redis.call('EXISTS', commands(id)) == 0 then
        redis.call('DEL', command_bytes(id))
    else
        redis.call('DECRBY', command_bytes(id), bytes)
    end
    return received
end

local info = read(id)

if op == 'find' then
    if not info or redis.call('EXISTS', session(id)) == 0 then
        stop(id)
        return {}
    end
    redis.call('ZADD', used(info.holder), text(now), id)
    lasts(id, info.holder, tonumber(ARGV[6]))
    return redis.call('HGETALL', session(id))
elseif op == 'change' then
    if not info then return 0 end
    local most, more = tonumber(ARGV[6]), 0
    for at = 7, #ARGV, 2 do
        local before = redis.call('HGET', session(id), ARGV[at])
        more = more + #ARGV[at + 1] + (before and -#before or #ARGV[at])
    end
    if info.fields + more > most then return -1 end
    redis.call('HSET', session(id), unpack(ARGV, 7))
    info.fields = info.fields + more
    write(id, info)
    recount(info.holder, more)
    return 1
elseif op == 'enter' then
    if not info then return 0 end
    info.parts = info.parts + 1
    write(id, info)
    owns(id, info.parts, ARGV[6], ARGV[7])
    redis.call('PEXPIRE', owners(id), text(math.max(redis.call('PTTL', session(id)), 1)))
    return info.parts
elseif op == 'stop' then
    stop(id)
    return 1
elseif op == 'keep' then
    if not info then return 1 end
    local number, seq, message, last = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
    local most, most_bytes, time = tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])
    local more = #message
    while info.count > 0 do
        local first = redis.call('LINDEX', log(id), 0)
        local is_old = not first or tonumber(string.match(first, '(%d+)$')) <= now
        if not is_old and info.count < most and info.bytes + more <= most_bytes then break end
        forget_first(id, info)
    end
    write(id, info)
    if not make_room(info.holder, more + MESSAGE, false) then return 0 end
    -- Its own messages may have given way.
    info = read(id)
    if not info then return 1 end
    local said = seq == END and last or message
    if redis.call('HSET', messages(id), number .. '-' .. seq, said) == 0 then return 1 end
    if seq == END then
        redis.call('LPUSH', ended(id), number)
        redis.call('LTRIM', ended(id), 0, ENDED - 1)
        redis.call('PEXPIRE', ended(id), text(math.max(redis.call('PTTL', session(id)), 1)))
    end
    redis.call('PEXPIRE', messages(id), text(time))
    redis.call('RPUSH', log(id), number .. ' ' .. seq .. ' ' .. more .. ' ' .. text(now + time * 1000))
    redis.call('PEXPIRE', log(id), text(time))
    info.bytes, info.count = info.bytes + more, info.count + 1
    write(id, info)
    recount(info.holder, more + MESSAGE)
    redis.call('ZADD', kept(info.holder), text(now), id)
    lives(kept(info.holder), time)
    return 1
elseif op == 'follow' then
    -- Nothing at all, if there is no such session. Else first the number of the last message, if nothing follows on it, or
    -- that the process of the stream has ended.
    if not info then return {} end
    local found = {''}
    local number, after, part = ARGV[6], tonumber(ARGV[7]), ARGV[8]
    for _, line in ipairs(redis.call('LRANGE', log(id), 0, -1)) do
        local whose, seq, till = string.match(line, '^(%d+) (%d+) %d+ (%d+)$')
        if whose == number and tonumber(till) > now and (seq == END or tonumber(seq) > after) then
            local said = redis.call('HGET', messages(id), number .. '-' .. seq)
            if said and seq == END then
                found[1] = said
            elseif said then
                table.insert(found, seq)
                table.insert(found, said)
            end
        end
    end
    -- Nothing follows on a stream that has ended, even if its messages were forgotten.
    local is_forgotten = found[1] == '' and #found == 1
    if is_forgotten and redis.call('LPOS', ended(id), number) then return {} end
    -- Nor on a stream whose process has ended.
    local owner = is_forgotten and redis.call('HGET', owners(id), part)
    if owner and redis.call('EXISTS', process(owner)) == 0 then return {'ended'} end
    return found
elseif op == 'renew' then
    runs(id, ARGV[6])
    return 1
elseif op == 'leave' then
    redis.call('DEL', process(id))
    redis.call('SET', left(id), '', 'PX', ARGV[6])
    return 1
elseif op == 'usage' then
    return {redis.call('HLEN', prefix .. ':info'), tonumber(redis.call('GET', prefix .. ':bytes') or '0')}
end
