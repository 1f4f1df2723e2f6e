"""Two notes: the second is linked to the first, and the first evolves."""

from amem_integrations import AgenticMemory

memory = AgenticMemory.open("./quickstart-memory")  # Qdrant's engine, in this folder
mira = ("mira",)  # whose memory it is

memory.add(
    "My sister's wedding is on 14 June in Porto.", namespace=mira, thread="March", speaker="Mira"
)
note = memory.add(
    "My sister's wedding in Porto was moved to 21 June.",
    namespace=mira,
    thread="May",
    speaker="Mira",
)

for target, link in note.links.items():  # the second note is linked, for a reason …
    first = memory.get(target, namespace=mira)
    print(f"{note.content}\n  {link.relation}: {first.content}\n  ({link.reason})")
    print(f"  evolved: {first.contexts[-1].text}")  # … and the first one is read in its light

for hit in memory.search("When is the wedding?", namespace=mira, k=2):
    print(f"{hit.score:.2f}  {hit.note.content}")
memory.close()
