"""Notes, decisions and a view: what is written once, and how a view is made of it.

Qdrant is atomic for one point at a time. A request over several points may be applied in part, arrive late, or arrive
twice, and a process may die between any two requests. So no promise here needs two points to be right at once: what was
said and what was decided are written once each, and a view is made of them, by anybody, at any time, again.

- `writer`: the two collections as the journal sees them, what a writer needs to write, new notes, and edits of the user's
  fields.
- `fold`: the view that decisions make of a note, now or at an earlier time.
- `projection`: writes views.
- `commit`: writes decisions, looks at their sources, shows and settles them; what is left of a decision when one of its
  sources is gone.
- `erasure`: deletes and corrections, with all that was made of the text; what a killed process left.
- `history`: undo, redo, approval and rejection; the history that notes and decisions tell.

Six statements hold over every order of requests, every kill between two, and late, repeated and partly applied requests:

1. A late, repeated or partial request changes nothing newer: every write is an insertion, or a swap of the token that was
   read (`writer`).
2. Once a delete or a correction has returned, no view shows the text or what was made of it, and after a resume no point
   holds it (`erasure`, and `commit`, which reads sources after it wrote).
3. When nothing is open, each view is the fold of its decisions (`projection`, `fold`).
4. One live decision of a model or the rules for each note, stage and rev shows (`slot_id` in `decisions`, `commit`).
5. What a user did and was told is done is never undone by machinery (stage `user` in `redact` of `commit`; `writer`, `history`).
6. The rev of an id never falls (`writer`, `erasure`).
"""
