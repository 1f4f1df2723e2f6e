"""`AMemRetriever`: the memory as a LlamaIndex retriever."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Unpack, get_type_hints

from llama_index.core.callbacks import CallbackManager
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import (
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from amem_integrations import AgenticMemory, ConfigurationError, Note, ScoredNote
from amem_integrations.adapting import (
    FIELDS,
    Call,
    OnError,
    RecallOptions,
    SearchKeywords,
    both,
    check_namespace,
    in_thread,
)

from .events import AMemRecallEvent, Failures, dispatcher
from .recall import check_options

if TYPE_CHECKING:
    from llama_index.core.llms import LLM
    from llama_index.core.query_engine import RetrieverQueryEngine

# What a language model is shown beside the text of a note; the rest of its metadata is for programs.
SHOWN = {"speaker", "at", "contexts"}

OPERATORS = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.CONTAINS: "$eq",  # a field that holds a list meets a condition if one of its items does
    FilterOperator.ANY: "$in",
}
RANGES = ("$gt", "$gte", "$lt", "$lte")
TIMES = ("at", "when", "recorded_at", "until", "expires_at")

Test = tuple[str, str, Any]


class AMemRetriever(BaseRetriever):
    """Finds notes, and what they are linked to, without calling a chat model.

    A node is a note: its id is the note's id, its text the note's content word for word, its score the cosine of
    query and note (None for one without a vector), by which post-processors can cut. Its `ref_doc_id` is
    `metadata["ref_doc_id"]` of the note, else the document or the conversation. Its `hash`
    depends on note and text alone, so that fusion retrievers know it in the results of several queries.

    Metadata is flat: the note's own, and `fused_score`, by which nodes are ordered, `similarity`, tags, keywords,
    contexts, links and so on, lists as one text. `via` is `"match"`, or as JSON the links that led to the note.
    What has a name of ours is found under `metadata.<name>`.
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
        namespace: Sequence[str],
        *,
        similarity_top_k: int | None = None,
        filters: MetadataFilters | None = None,
        on_error: OnError = "log",
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
        **search: Unpack[SearchKeywords],
    ) -> None:
        """Take what `AgenticMemory.search` takes, or what LlamaIndex calls the same.

        Args:
            memory: The memory to search.
            namespace: Whose notes.
            similarity_top_k: Most notes to return, as `k`.
            filters: Conditions on fields and metadata of notes, as `where`.
            on_error: `"log"` returns no notes while the store or the embedder does not answer; `"raise"`
                raises.
            callback_manager: The framework's.
            verbose: The framework's.
            search: `k`, `where`, `min_similarity`, `links`, `as_of`: see `RecallOptions`.

        Raises:
            NamespaceError: The namespace is not a non-empty tuple of strings.
            ConfigurationError: An option has a value that cannot be used, or two say different things.
        """
        check_options(search, get_type_hints(SearchKeywords))
        if (
            similarity_top_k is not None
            and search.setdefault("k", similarity_top_k) != similarity_top_k
        ):
            raise ConfigurationError(
                f"k={search['k']!r} and {similarity_top_k=} are two numbers for one thing"
            )
        search["where"] = where_of(filters, search.get("where"))
        self._memory, self._namespace = memory, check_namespace(namespace)
        self._options = RecallOptions(**search)
        self._failures = Failures(on_error)
        super().__init__(callback_manager=callback_manager, verbose=verbose)

    @property
    def similarity_top_k(self) -> int:
        """Most notes to return."""
        return self._options.k

    @similarity_top_k.setter
    def similarity_top_k(self, value: int) -> None:
        self._options = replace(self._options, k=value)

    @property
    def failures(self) -> dict[str, int]:
        """How often the memory did not answer so far."""
        return self._failures.snapshot()

    def as_query_engine(self, llm: LLM | None = None, **options: Any) -> RetrieverQueryEngine:  # noqa: ANN401 - the framework's
        """Return a query engine that answers from what is found; it takes what `RetrieverQueryEngine.from_args` does."""
        from llama_index.core.query_engine import RetrieverQueryEngine  # noqa: PLC0415 - slow to import

        return RetrieverQueryEngine.from_args(self, llm=llm, **options)

    async def _find(self, call: Call, query: str) -> list[NodeWithScore]:
        """Return the notes found, as nodes."""
        if not query.strip() or self._failures.resting("recall"):
            return []
        with self._failures.tolerated("recall"):
            hits = await self._options.search(call, self._memory, query, [self._namespace])
            ids = [hit.note.id for hit in hits]
            dispatcher.event(AMemRecallEvent(question=query, note_ids=ids, cached=False))
            return [to_node(hit) for hit in hits]
        return []

    _found = both(_find)[0]

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._found(query_bundle.query_str)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        # The loop may be one of the framework's, which is closed afterwards, as in `QueryFusionRetriever`.
        return await in_thread(self._retrieve, query_bundle)


class NoteNode(TextNode):
    """A note as a node."""

    @property
    def hash(self) -> str:
        """Tells the note and its text, whatever query found it and whatever was understood of it since."""
        return sha256(f"{self.id_}\n{self.text}".encode(errors="surrogatepass")).hexdigest()


def to_node(hit: ScoredNote) -> NodeWithScore:
    """Return a note as a node; see `AMemRetriever`."""
    note, own = hit.note, hit.to_dict()
    given = own.pop("metadata")
    own["fused_score"] = own.pop("score")  # the framework has a place of its own for the cosine
    metadata = {name: _flat(name, value) for name, value in own.items()}
    metadata |= {
        f"metadata.{name}" if name in own else name: _flat("", value)
        for name, value in given.items()
    }
    whole = _source_of(note)
    source = {} if whole is None else {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=whole)}
    fields: dict[str, Any] = {
        "id_": note.id,
        "text": note.content,
        "metadata": metadata,
        "relationships": source,
        "excluded_llm_metadata_keys": [n for n, v in metadata.items() if n not in SHOWN or not v],
        "excluded_embed_metadata_keys": list(metadata),
    }
    # Fusion retrievers compute with scores, so a hit that has no cosine counts as one of 0.
    return NodeWithScore(node=NoteNode(**fields), score=metadata["similarity"] or 0.0)


def _source_of(note: Note) -> str | None:
    """Return what a note is a part of, if that is known."""
    given = note.metadata.get("ref_doc_id")
    if isinstance(given, str) and given:
        return given
    return note.thread


def _flat(name: str, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value that is no list or object; vector stores take no other metadata."""
    if name != "via" and isinstance(value, list) and all(isinstance(item, str) for item in value):
        separator = {"contexts": "\n", "namespace": "/"}.get(name, ", ")
        return separator.join(value)
    return json.dumps(value) if isinstance(value, list | Mapping) else value


# LlamaIndex's `MetadataFilters` as the `where` of the memory


def where_of(
    filters: MetadataFilters | None, where: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """Return the conditions of both; a key is a field of notes (`speaker`, `at`, …), else one of their `metadata`.

    Times are given as ISO 8601.

    Raises:
        ConfigurationError: The memory cannot be asked that: `not`, `or` between different keys, a part of a text,
            or the same operator twice for one key.
    """
    if filters is None:
        return None if where is None else dict(where)
    if not isinstance(filters, MetadataFilters):
        raise ConfigurationError(f"filters={filters!r} must be MetadataFilters")
    found: dict[str, Any] = {}
    for field, operator, value in _tests(filters):
        tests = found.setdefault(field, {})
        if tests.get(operator, value) != value:
            raise _unknown(f"{operator} twice for {field!r}")
        tests[operator] = value
    if twice := sorted(found.keys() & (where or {}).keys()):
        raise _unknown(f"{twice[0]!r} in both filters and where")
    return {**(where or {}), **found}


def _tests(filters: MetadataFilters) -> Iterator[Test]:
    """Return the conditions, all of which have to hold."""
    if filters.condition == FilterCondition.NOT:
        raise _unknown("'not'")
    if filters.condition == FilterCondition.OR and len(filters.filters) > 1:
        yield _any_of(filters)
        return
    for one in filters.filters:
        if isinstance(one, MetadataFilters):
            yield from _tests(one)
        else:
            yield _test(one)


def _any_of(filters: MetadataFilters) -> Test:
    """Return alternatives for one key as one condition."""
    singles = [one for one in filters.filters if isinstance(one, MetadataFilter)]
    tests = [_test(one) for one in singles]
    fields = {field for field, _, _ in tests}
    if len(tests) < len(filters.filters) or len(fields) > 1:
        raise _unknown("'or' between different keys")
    if not all(operator in ("$eq", "$in") for _, operator, _ in tests):
        raise _unknown("'or' between ranges")
    values = [value if operator == "$in" else [value] for _, operator, value in tests]
    return fields.pop(), "$in", [item for some in values for item in some]


def _test(one: MetadataFilter) -> Test:
    field = (
        one.key if one.key in FIELDS or one.key.startswith("metadata.") else f"metadata.{one.key}"
    )
    values = one.value if isinstance(one.value, list) else [one.value]
    operator = OPERATORS.get(one.operator)
    if one.operator == FilterOperator.IS_EMPTY:
        return field, "$eq", None
    if one.operator in (FilterOperator.NIN, FilterOperator.ALL) and len(values) == 1:
        operator = "$ne" if one.operator == FilterOperator.NIN else "$eq"
    if operator is None or (operator != "$in" and len(values) != 1):
        raise _unknown(f"the operator {one.operator.value!r} for {one.key!r}")
    timely = operator in RANGES or field in TIMES
    read = [_time(value) if timely and isinstance(value, str) else value for value in values]
    return field, operator, read if operator == "$in" else read[0]


def _time(text: str) -> datetime | str:
    """Return the time that a text says, in UTC without a zone; another text as it is."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return text
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _unknown(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"filters: {what} cannot be asked of the memory; all conditions hold together, each by one of "
        "== != > >= < <= in, and where= takes the memory's own"
    )
