from .fastembed import FastEmbedEmbedder as FastEmbedEmbedder
from .minilm import MiniLmEmbedder as MiniLmEmbedder
from .openai import OpenAIChatModel as OpenAIChatModel
from .openai import OpenAIEmbedder as OpenAIEmbedder
from .rules import RuleModel as RuleModel
from .sentence_transformers import SentenceTransformerEmbedder as SentenceTransformerEmbedder
