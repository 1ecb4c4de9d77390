-- The entry of docs/troubleshooting.md that a note of a run leads to.

local note_entry = {}

-- Returns the note with its entry's name; name: of the rule that gave the note.
function note_entry.added(note, name)
  return ("%s (docs/troubleshooting.md#%s)"):format(note, name)
end

return note_entry
