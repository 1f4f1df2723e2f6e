from .embedders import FastEmbedEmbedder as FastEmbedEmbedder
from .embedders import SentenceTransformerEmbedder as SentenceTransformerEmbedder
from .minilm import MiniLmEmbedder as MiniLmEmbedder
from .openai import OpenAIChatModel as OpenAIChatModel
from .openai import OpenAIEmbedder as OpenAIEmbedder
from .rules import RuleModel as RuleModel
