"""A tokenizer whose words are numbers, so that texts can stand for token ids. vLLM's Python."""

import sys

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast

if __name__ == "__main__":
    folder, size = sys.argv[1], int(sys.argv[2])
    words = Tokenizer(WordLevel({str(i): i for i in range(size)}, unk_token="0"))
    words.pre_tokenizer = WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)
