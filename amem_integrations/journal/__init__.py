"""Notes, decisions and a view: what is written once, and how a view is made of it.

Qdrant is atomic for one point at a time. A request over several points may be applied in part, arrive late, or arrive
twice, and a process may die between any two requests. So no promise here needs two points to be right at once: what was
said and what was decided are written once each, and a view is made of them, by anybody, at any time, again.

- `writer`: the two collections as the journal sees them, and what a writer needs to write.
- `fold`: the view that decisions make of a note.
- `projection`: writes views.
- `commit`: writes decisions, looks at their sources, shows and settles them.
- `erasure`: deletes and corrections, with all that was made of the text; what a killed process left.
- `history`: undo, redo, approval and rejection.
- `changes`: the history that notes and decisions tell.
- `known_at`: notes as the memory knew them at an earlier time.
"""
