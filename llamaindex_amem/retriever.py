"""`AMemRetriever`: the memory as a LlamaIndex retriever."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Any, Unpack

from llama_index.core import schema
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator

from amem_integrations import AgenticMemory, ScoredNote, adapting
from amem_integrations.errors import ConfigurationError, InvalidInputError

from .conversation import Door, Search, Whose
from .events import Failures

# Metadata that a language model is shown beside the text of a note; all other metadata is for programs.
SHOWN = {"speaker", "at", "contexts"}
# Of the metadata of a node whose text is long: the parts of the text that match the query.
PASSAGE = "passage"
# Of the metadata of a note that was ingested: what else is to be known of the node.
NODE = "_node"

# By the same names, and by others: a field that holds a list meets a condition if one of its items does.
OPERATORS = {"CONTAINS": "$eq", "ANY": "$in", "ALL": "$eq", "IS_EMPTY": "$exists"}
OPERATORS |= {n: f"${n.lower()}" for n in ("EQ", "NE", "GT", "GTE", "LT", "LTE", "IN", "NIN")}
LISTS = ("IN", "NIN", "ANY", "ALL")
RANGES = ("$gt", "$gte", "$lt", "$lte")
TIMES = ("at", "when", "recorded_at", "until", "expires_at")


class AMemRetriever(BaseRetriever):
    """Finds notes, and what they are linked to, without calling a chat model.

    A node is a note, its text the note's content word for word, its score the cosine of query and note (0 for one without
    a vector), by which post-processors can cut. Its `hash` depends on note and text alone, so that fusion retrievers know
    it in the results of several queries.

    A node that `AMemIngest` stored comes back as it was: its id, its metadata and what of these a model is shown, the
    documents it belongs to (`ref_doc_id`) and stands between. Of a long one the parts that match stand beside it, in
    `metadata["passage"]`: `MetadataReplacementPostProcessor("passage")` shows these in place of the whole text.

    What was said in a conversation has flat metadata: the user's own, and `fused_score`, by which nodes are ordered,
    `similarity`, tags, keywords, contexts, links and so on, lists as one text. `via` is `"match"`, or as JSON the links
    that led to the note. What has a name of ours is found under `metadata.<name>`. The `ref_doc_id` is the conversation.
    https://developers.llamaindex.ai/python/framework/module_guides/querying/retriever/

    Example:
        >>> from amem_integrations import AgenticMemory
        >>> from amem_integrations.testing import HashEmbedder
        >>> memory = AgenticMemory.open(":memory:", embedder=HashEmbedder())
        >>> note = memory.add("I moved to Oslo.", namespace=("ann",))
        >>> retriever = AMemRetriever(memory=memory, namespace=("ann",))
        >>> retriever.retrieve("Where did Ann move to?")[0].text
        'I moved to Oslo.'
    """

    def __init__(
        self,
        memory: AgenticMemory,
        namespace: Whose,
        *,
        similarity_top_k: int | None = None,
        filters: MetadataFilters | None = None,
        on_error: adapting.OnError = "log",
        **search: Unpack[Search],
    ) -> None:
        """Take the arguments of `AgenticMemory.search`, or those that LlamaIndex calls the same.

        Args:
            memory: The memory to search.
            namespace: Whose notes: a tuple, or a function without arguments that is called at each search.
            similarity_top_k: Most notes to return, by default 10; LlamaIndex's name for `k`.
            filters: Conditions on metadata, or on fields of notes (`speaker`, `at`, …): a key that is the name of both
                is met by either.
            on_error: `"log"` returns no notes while something fails; `"raise"` raises.
            search: `k`, `also` (further namespaces, by a name), `where` (conditions as the memory has them, or a function
                that returns them), `min_similarity`, `links`, `as_of` and `known_at`: see `AgenticMemory.search`.

        Raises:
            NamespaceError: The namespace is not a non-empty tuple of strings.
            ConfigurationError: An option has a value that cannot be used.
            TypeError: An option is unknown.
        """
        search["k"] = k = search.get("k", 10) if similarity_top_k is None else similarity_top_k
        options: dict[str, Any] = {"also": search.pop("also", None), "failures": Failures(on_error)}
        recall = adapting.checked_recall(search, adapting.SearchOptions)
        self._door = Door(memory, namespace, recall=recall, **options)
        self.similarity_top_k, self._filters = k, _where(filters)
        adapting.checked_recall({"where": self._filters})
        super().__init__()

    @property
    def failures(self) -> dict[str, int]:
        """How often the memory did not answer so far."""
        return self._door.failures.snapshot()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        query, door = query_bundle.query_str, self._door
        search = partial(door.memory.search_turn, query)
        options = {"narrowed": [self._filters], "k": self.similarity_top_k}
        return to_nodes(door.recalled(query, search, door.space, **options).hits)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        # The loop may be one of the framework's, which is closed afterwards, as in `QueryFusionRetriever`.
        return await adapting.in_thread(partial(self._retrieve, query_bundle))


class NoteNode(schema.TextNode):
    """A note as a node."""

    @property
    def hash(self) -> str:
        """Tells the note and its text, whatever query found it and whatever was understood of it since."""
        return sha256(f"{self.id_}\n{self.text}".encode(errors="surrogatepass")).hexdigest()


def to_nodes(hits: Iterable[ScoredNote]) -> list[NodeWithScore]:
    """Return notes as nodes of different ids; see `AMemRetriever`.

    Of documents with one id in several namespaces all but the first have the id of their note: the framework drops nodes
    whose id it has seen.
    """
    nodes: dict[str, NodeWithScore] = {}
    for hit in hits:
        found = to_node(hit)
        if found.node_id in nodes:
            found.node.id_ = hit.note.id
        nodes[found.node_id] = found
    return [*nodes.values()]


def to_node(hit: ScoredNote) -> NodeWithScore:
    """Return a note as a node; see `AMemRetriever`."""
    note, document = hit.note, adapting.described(hit.note)
    metadata, fields = dict(document.metadata), dict[str, Any]()
    if document.id:
        fields = metadata.pop(NODE, {})
    elif note.origin != "document":
        metadata = _flat(hit)
        hidden = [name for name, value in metadata.items() if name not in SHOWN or not value]
        fields = {"excluded_llm_metadata_keys": hidden, "excluded_embed_metadata_keys": [*metadata]}
    fields |= {"metadata": metadata, "id_": document.id or note.id, "text": note.content}
    node = NoteNode(**fields)
    if node.source_node is None and note.thread is not None:
        source = schema.RelatedNodeInfo(node_id=note.thread)
        node.relationships[schema.NodeRelationship.SOURCE] = source
    if hit.passages:
        parts = sorted(hit.passages, key=lambda passage: passage.start)
        node.metadata[PASSAGE] = "\n…\n".join(passage.text for passage in parts)
        node.excluded_llm_metadata_keys.append(PASSAGE)
        node.excluded_embed_metadata_keys.append(PASSAGE)
    # Fusion retrievers compute with scores, so a hit that has no cosine counts as one of 0.
    return NodeWithScore(node=node, score=float(hit.similarity or 0.0))


def _flat(hit: ScoredNote) -> dict[str, Any]:
    """Return the fields of a hit without lists and objects; vector stores take no other metadata."""
    own = hit.to_dict()
    own["fused_score"] = own.pop("score")  # the framework has a place of its own for the cosine
    given = own.pop("metadata")
    del own[PASSAGE]
    given.pop(adapting.HASH, None)
    own |= {f"metadata.{name}" if name in own else name: value for name, value in given.items()}
    separators = {"contexts": "\n", "namespace": "/"}
    for name, value in own.items():
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            own[name] = separators.get(name, ", ").join(value)
        elif isinstance(value, list | Mapping):
            own[name] = json.dumps(value)
    return own


def _where(filters: MetadataFilters | None) -> dict[str, Any]:
    """Return LlamaIndex's filters as the `where` of the memory; times are given as ISO 8601.

    Raises:
        ConfigurationError: The memory cannot be asked that: `not`, or a part of a text.
    """
    if filters is None:
        return {}
    if not isinstance(filters, MetadataFilters) or filters.condition == FilterCondition.NOT:
        raise ConfigurationError(
            f"filters={filters!r} must be MetadataFilters joined by 'and' or 'or'"
        )
    made = (_where(f) if isinstance(f, MetadataFilters) else _test(f) for f in filters.filters)
    parts = [part for part in made if part]  # empty ones say nothing
    return {"$or" if filters.condition == FilterCondition.OR else "$and": parts} if parts else {}


def _test(one: MetadataFilter) -> dict[str, Any]:
    operator, given = OPERATORS.get(one.operator.name), one.value
    values: list[Any] = given if isinstance(given, list) else [given]
    if operator is None or (len(values) != 1 and one.operator.name not in LISTS):
        use = ", ".join(FilterOperator[name].value for name in OPERATORS)
        raise ConfigurationError(
            f"filters: {one.operator.value!r} of {one.key!r} and {given!r} cannot be asked of the memory; use one of {use}"
        )
    if operator in RANGES or one.key in TIMES:
        values = [_time(value) for value in values]
    if operator in ("$in", "$nin"):
        values = [values]
    tests = [{operator: False if operator == "$exists" else value} for value in values]
    return {"$and": [_on_either(one.key, test) for test in tests]}


def _on_either(key: str, test: Mapping[str, Any]) -> dict[str, Any]:
    """Return a test of what the user gave under a name, or of the field of notes that has the name."""
    given = {f"metadata.{key.removeprefix('metadata.')}": test}
    with suppress(InvalidInputError):  # notes have no such field, or it never has such a value
        adapting.parse({key: test})
        is_negative = test.keys() & {"$ne", "$nin", "$exists"}
        return {"$and" if is_negative else "$or": [{key: test}, given]}
    return given


def _time(value: Any) -> Any:  # noqa: ANN401 - of any type
    """Return the time that a text says, in UTC without a zone; anything else as it is."""
    with suppress(InvalidInputError):
        return adapting.parse_time(value) if isinstance(value, str) else value
    return value
