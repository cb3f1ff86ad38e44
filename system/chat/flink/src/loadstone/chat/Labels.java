package loadstone.chat;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * What a message is: the same as package analysis of the chat, bit for bit. There, in analysis.go and
 * fold.go, is said what it does and why; labels.jsonl of the contract has golden records. There are
 * integers only.
 *
 * <p>One object serves one thread.
 */
public final class Labels {
  /** The labels' names on the wire, in their order. */
  public static final String[] NAMES = {"praise", "criticism", "laughter", "question", "advice"};

  private static final int LABELS = NAMES.length;
  private static final int BUCKETS = 1 << 14;
  private static final int GRAM = 4;
  private static final int LONGEST = 100;
  private static final int MAX_RUN = 3;
  private static final int DROPPED = -1;

  private static final int FIRST_LEAD = 0x1100, LEADS = 19;
  private static final int FIRST_VOWEL = 0x1161, VOWELS = 21;
  private static final int BEFORE_TAIL = 0x11a7, TAILS = 28;
  private static final int FIRST_SYLLABLE = 0xac00, LAST_SYLLABLE = FIRST_SYLLABLE + LEADS * VOWELS * TAILS - 1;

  private static final int HASH_BASIS = 0x811c9dc5, HASH_PRIME = 16777619;

  private final byte[] weights;
  private final Map<Integer, Integer> folds = new HashMap<>();

  private final int[] normal = new int[LONGEST + 2];
  private int length; // of normal
  private int run; // how often the last character of normal has followed itself

  /**
   * @param model the weights, model.bin
   * @param table what becomes of characters, fold.tsv
   */
  public Labels(byte[] model, byte[] table) {
    if (model.length != BUCKETS * LABELS) {
      throw new IllegalArgumentException("a model of " + model.length + " bytes: it has " + BUCKETS * LABELS);
    }
    weights = model.clone();
    for (String line : new String(table, StandardCharsets.UTF_8).split("\n")) {
      String[] parts = line.split("\t");
      int last = Integer.parseInt(parts[1], 16);
      for (int c = Integer.parseInt(parts[0], 16); c <= last; c++) {
        if (parts[2].equals("drop")) {
          folds.put(c, DROPPED);
        } else if (parts[2].charAt(0) == '=') {
          folds.put(c, Integer.parseInt(parts[2].substring(1), 16));
        } else {
          folds.put(c, c + Integer.parseInt(parts[2], 16));
        }
      }
    }
  }

  /** The label of a text, by its number in NAMES. */
  public int classify(String text) {
    return classify(text.getBytes(StandardCharsets.UTF_8));
  }

  /** The label of a text in UTF-8. */
  public int classify(byte[] text) {
    int[] sums = sums(text);
    int best = 0;
    for (int l = 1; l < LABELS; l++) {
      if (sums[l] > sums[best]) {
        best = l;
      }
    }
    return best;
  }

  /** The weights of a text's features, added up. */
  public int[] sums(byte[] text) {
    int[] sums = new int[LABELS];
    add(sums, HASH_BASIS);
    normalise(text);
    int one = 0, two = 0, three = 0, four = 0;
    for (int i = 0; i < length; i++) {
      int c = normal[i];
      four = mix(three, c);
      three = mix(two, c);
      two = mix(one, c);
      one = mix(HASH_BASIS, c);
      if (c != ' ') {
        add(sums, one);
      }
      if (i >= 1) {
        add(sums, two);
      }
      if (i >= 2) {
        add(sums, three);
      }
      if (i >= GRAM - 1) {
        add(sums, four);
      }
    }
    return sums;
  }

  private void add(int[] sums, int hash) {
    int at = ((hash ^ hash >>> 16) & (BUCKETS - 1)) * LABELS;
    for (int l = 0; l < LABELS; l++) {
      sums[l] += weights[at + l];
    }
  }

  /** Continues a hash with a character's UTF-8. */
  private static int mix(int hash, int c) {
    if (c < 0x80) {
      return (hash ^ c) * HASH_PRIME;
    }
    if (c < 0x800) {
      hash = (hash ^ (0xc0 | c >> 6)) * HASH_PRIME;
    } else {
      if (c < 0x10000) {
        hash = (hash ^ (0xe0 | c >> 12)) * HASH_PRIME;
      } else {
        hash = (hash ^ (0xf0 | c >> 18)) * HASH_PRIME;
        hash = (hash ^ (0x80 | c >> 12 & 0x3f)) * HASH_PRIME;
      }
      hash = (hash ^ (0x80 | c >> 6 & 0x3f)) * HASH_PRIME;
    }
    return (hash ^ (0x80 | c & 0x3f)) * HASH_PRIME;
  }

  /** The text as the model looks at it. */
  public String normal(byte[] text) {
    normalise(text);
    return new String(normal, 0, length);
  }

  private void normalise(byte[] text) {
    normal[0] = ' ';
    length = 1;
    run = 0;
    int pending = ' '; // what the next character may become one syllable with
    for (int i = 0; i < text.length; ) {
      int size = size(text, i);
      int c = size == 0 ? 0xfffd : decode(text, i, size);
      i += Math.max(size, 1); // of what is not UTF-8, each byte is a character
      c = folds.getOrDefault(c, c);
      if (c == DROPPED) {
        continue;
      }
      if (c >= FIRST_VOWEL && c < BEFORE_TAIL + TAILS) {
        int s = compose(pending, c);
        if (s != 0) {
          pending = s;
          continue;
        }
      }
      follow(pending);
      if (length > LONGEST) {
        pending = ' ';
        break;
      }
      pending = c;
    }
    follow(pending);
    if (normal[length - 1] != ' ') {
      normal[length++] = ' ';
    }
  }

  private void follow(int c) {
    if (c != normal[length - 1]) {
      run = 1;
      normal[length++] = c;
      return;
    }
    run++;
    if (c != ' ' && run <= MAX_RUN) {
      normal[length++] = c;
    }
  }

  /** The syllable of two that follow each other, or 0. */
  private static int compose(int a, int b) {
    if (a >= FIRST_LEAD && a < FIRST_LEAD + LEADS && b >= FIRST_VOWEL && b < FIRST_VOWEL + VOWELS) {
      return FIRST_SYLLABLE + ((a - FIRST_LEAD) * VOWELS + b - FIRST_VOWEL) * TAILS;
    }
    if (b > BEFORE_TAIL && b < BEFORE_TAIL + TAILS && a >= FIRST_SYLLABLE && a <= LAST_SYLLABLE && (a - FIRST_SYLLABLE) % TAILS == 0) {
      return a + b - BEFORE_TAIL;
    }
    return 0;
  }

  /** How many bytes the character at i has, or 0 if it is none (RFC 3629). */
  private static int size(byte[] b, int i) {
    int first = b[i] & 0xff;
    int low = 0x80, high = 0xbf, size;
    if (first < 0x80) {
      return 1;
    } else if (first >= 0xc2 && first <= 0xdf) {
      size = 2;
    } else if (first >= 0xe0 && first <= 0xef) {
      size = 3;
      low = first == 0xe0 ? 0xa0 : low;
      high = first == 0xed ? 0x9f : high;
    } else if (first >= 0xf0 && first <= 0xf4) {
      size = 4;
      low = first == 0xf0 ? 0x90 : low;
      high = first == 0xf4 ? 0x8f : high;
    } else {
      return 0;
    }
    if (i + size > b.length) {
      return 0;
    }
    for (int at = i + 1; at < i + size; at++) {
      int c = b[at] & 0xff;
      if (c < low || c > high) {
        return 0;
      }
      low = 0x80;
      high = 0xbf;
    }
    return size;
  }

  private static int decode(byte[] b, int i, int size) {
    int c = b[i] & (size == 1 ? 0x7f : 0xff >> (size + 1));
    for (int at = i + 1; at < i + size; at++) {
      c = c << 6 | b[at] & 0x3f;
    }
    return c;
  }
}
