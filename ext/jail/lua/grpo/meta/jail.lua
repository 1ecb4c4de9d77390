---@meta _

grpo.jail = {}

---@class grpo.JailTask
---@field command string[] a program and its arguments
---@field files? table<string, string> names and texts of files in the directory where it begins
---@field input? string its standard input
---@field seconds? number processor time of all its processes, default 5
---@field wall_seconds? number default: five times as long
---@field memory_mib? number address space of each process, default 256
---@field disk_mib? number what it may write into files, default 16
---@field output_bytes? integer of its output and of its errors, default 65536
---@field processes? integer at once, with threads; default 16
---@field read? string[] absolute paths of more files and directories that it may read
---@field env? table<string, string> more variables

---@class grpo.JailResult
---@field ended "exit"|"signal"|"cpu"|"wall"|"output" how: by itself, by a signal, or at a limit
---@field code integer the exit status or the signal
---@field ok boolean it ended by itself, with exit status 0
---@field seconds number processor time that it used
---@field output string
---@field errors string what it wrote to its standard error

---Runs a program that is not trusted: without network, other files and processes, within limits.
---Raises if there is no bubblewrap, if the kernel allows no jail, or if the program does not exist.
---@param task grpo.JailTask
---@return grpo.JailResult
function grpo.jail.run(task) end

---Runs several side by side; at_once: how many (0, the default: as many as there are cores).
---@param tasks grpo.JailTask[]
---@param opts? { at_once?: integer }
---@return grpo.JailResult[] results in the order of the tasks
function grpo.jail.run_all(tasks, opts) end

---Says why the task, or without one any task, could not be run here; nil if it could.
---@param task? grpo.JailTask
---@return string|nil
function grpo.jail.problem(task) end
