"""What stands for many messages: the same as Summarise in package analysis of the chat, to the line.

There, in summary.go and fold.go, is said what it does and why; summaries.jsonl of the contract has golden
records. Integers only. It needs nothing but Python, so that a job of Spark can ship it as one file.
"""

SUMMARY_OF = 200  # messages, the newest
LONGEST = 100
MAX_RUN = 3
FEWEST = 5  # characters of a message that is considered
MOST = 3  # messages that stand for all

FIRST_LEAD, LEADS = 0x1100, 19
FIRST_VOWEL, VOWELS = 0x1161, 21
BEFORE_TAIL, TAILS = 0x11A7, 28
FIRST_SYLLABLE = 0xAC00
LAST_SYLLABLE = FIRST_SYLLABLE + LEADS * VOWELS * TAILS - 1
SPACE = 0x20


def read_folds(path):
    """What becomes of characters, of fold.tsv: a number for each that changes, None for one that goes."""
    folds = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            first, last, what = line.rstrip("\n").split("\t")
            for c in range(int(first, 16), int(last, 16) + 1):
                if what == "drop":
                    folds[c] = None
                elif what[0] == "=":
                    folds[c] = int(what[1:], 16)
                else:
                    folds[c] = c + int(what, 16)
    return folds


def compose(a, b):
    """The syllable of two that follow each other, or 0."""
    if FIRST_LEAD <= a < FIRST_LEAD + LEADS and FIRST_VOWEL <= b < FIRST_VOWEL + VOWELS:
        return FIRST_SYLLABLE + ((a - FIRST_LEAD) * VOWELS + b - FIRST_VOWEL) * TAILS
    if BEFORE_TAIL < b < BEFORE_TAIL + TAILS and FIRST_SYLLABLE <= a <= LAST_SYLLABLE and (a - FIRST_SYLLABLE) % TAILS == 0:
        return a + b - BEFORE_TAIL
    return 0


def normalise(folds, text):
    """The text as the analysis looks at it: numbers of characters, with a space around it."""
    normal, run, pending = [SPACE], 0, SPACE

    def follow(c):
        nonlocal run
        if c != normal[-1]:
            normal.append(c)
            run = 1
            return
        run += 1
        if c != SPACE and run <= MAX_RUN:
            normal.append(c)

    for c in map(ord, text):
        c = folds.get(c, c)
        if c is None:
            continue
        if FIRST_VOWEL <= c < BEFORE_TAIL + TAILS:
            syllable = compose(pending, c)
            if syllable:
                pending = syllable
                continue
        follow(pending)
        if len(normal) > LONGEST:
            pending = SPACE
            break
        pending = c
    follow(pending)
    if normal[-1] != SPACE:
        normal.append(SPACE)
    return normal


def summarise(folds, texts):
    """The indexes of the texts that stand for all, three at most, in order."""
    found, points, seen = [], {}, set()
    for index, text in enumerate(texts):
        normal = tuple(normalise(folds, text))
        if len(normal) < FEWEST + 2 or normal in seen:  # it has a space at both ends
            continue
        seen.add(normal)
        grams = {normal[at : at + 3] for at in range(len(normal) - 2)}
        for gram in grams:
            points[gram] = points.get(gram, 0) + 1
        found.append((index, grams))
    scored = []
    for index, grams in found:
        score = 1000 * sum(points[gram] - 1 for gram in grams) // (len(grams) + 8)
        scored.append((score, index, grams))
    scored.sort(key=lambda s: -s[0])  # it keeps the order of equal ones
    taken = []
    for _, index, grams in scored:
        alike = any(2 * len(grams & other) >= min(len(grams), len(other)) for _, other in taken)
        if len(taken) < MOST and not alike:
            taken.append((index, grams))
    return sorted(index for index, _ in taken)


if __name__ == "__main__":
    # For who compares: of each line, a JSON array of texts, the indexes as one. The argument is fold.tsv.
    import json
    import sys

    table = read_folds(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(summarise(table, json.loads(line))))
