-- A look-up in Redis, as few words of its protocol as that takes: GET, and SET after a miss.
local function command(sock, ...)
  local parts = { "*" .. select("#", ...) .. "\r\n" }
  for _, word in ipairs({ ... }) do
    parts[#parts + 1] = "$" .. #word .. "\r\n" .. word .. "\r\n"
  end
  local ok, err = sock:send(parts)
  local line
  if ok then
    line, err = sock:receive("*l")
  end
  if not line then
    return nil, err
  end
  local length = tonumber(line:match("^%$(-?%d+)"))
  if not length or length < 0 then
    return nil, line:sub(1, 1) == "-" and line or nil
  end
  local data
  data, err = sock:receive(length + 2)
  return data and data:sub(1, length), err
end

local key = ngx.var.uri
local sock = ngx.socket.tcp()
sock:settimeout(1000)
local ok, err = sock:connect(ngx.var.redis, 6379)
local body
if ok then
  body, err = command(sock, "GET", key)
end
if not body and not err then
  local res = ngx.location.capture("/from-origin" .. key)
  if res.status ~= 200 then
    return ngx.exit(res.status)
  end
  body = res.body
  _, err = command(sock, "SET", key, body)
end
if err then
  ngx.log(ngx.ERR, "Redis: ", err)
  return ngx.exit(503)
end
sock:setkeepalive(60000, 64)
ngx.header["Content-Length"] = #body
ngx.print(body)
