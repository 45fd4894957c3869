"""The corpus that comes with lookleft: everyday English and Hindi, made by a grammar.

English leaves open what Hindi must say, so the grammar always decides alike, and each English
sentence has one Hindi sentence:

- "I", "we" and "they" are masculine; a woman who says "I" is quoted by name (Sita said, "...").
- "you" is आप, to a man. Somebody addressed at the end of the sentence changes that: तुम for a
  brother, sister, friend, child or first name, आप for sir and madam, each with their gender.
- A possessive that may point back to the subject does: "Ravi read his book" is अपनी किताब.
- Parents, grandparents, uncles, aunts and husbands are spoken of in the respectful plural.
- "a" is एक, but nothing after "not", in questions, and before the name of a trade.
- People as objects take को always, animals when they are known ones, things never.
- A negated habit loses its auxiliary (नहीं जाता); every other tense keeps it.
- The dot of nukta is written in ज़, फ़, ड़, ढ़ and left out in क, ख, ग.
- No mark at the end of the English, no mark at the end of the Hindi.
"""

from lookleft.data.phrases.corpus import PhrasePair, Split, pairs, split, vocabulary
from lookleft.data.phrases.words import count_words, split_words

__all__ = [
    "PhrasePair",
    "Split",
    "count_words",
    "pairs",
    "split",
    "split_words",
    "vocabulary",
]
