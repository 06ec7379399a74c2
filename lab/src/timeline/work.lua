local dir = arg[1]
os.execute("mkdir -p " .. dir)
for i = 1, 700 do
  local name = dir .. "/" .. i
  local f = assert(io.open(name, "w"))
  for j = 1, 50 do f:write(string.rep("x", j * 7), "\n") f:flush() end
  f:close()
  local n = 0
  for line in io.lines(name) do n = n + #line end
  os.rename(name, name .. ".old")
  -- The machine has the speed of one processor for the recorders, too.
  if i % 25 == 0 then os.execute("sleep 1") end
end
for i = 1, 700 do os.remove(dir .. "/" .. i .. ".old") end
print("done")
