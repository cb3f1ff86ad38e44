package loadstone.chat;

import java.io.IOException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonParser;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.DeserializationFeature;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/** What of a record of raw-chats is needed here. raw.jsonl of the contract says which records are messages. */
final class Message {
  private static final ObjectMapper JSON =
      new ObjectMapper()
          .enable(JsonParser.Feature.STRICT_DUPLICATE_DETECTION)
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          .enable(DeserializationFeature.FAIL_ON_READING_DUP_TREE_KEY);

  private static final long MAX_STREAM = (1L << 53) - 1;
  private static final int MAX_TEXT = 500, MAX_NAME = 40, MAX_ID = 64, MAX_MENTIONS = 5;

  final long stream;
  final String sender, id, text;

  private Message(long stream, String sender, String id, String text) {
    this.stream = stream;
    this.sender = sender;
    this.id = id;
    this.text = text;
  }

  /** The message of a record, or null if it is none. */
  static Message parse(byte[] value) {
    JsonNode record;
    try {
      record = JSON.readTree(value);
    } catch (IOException e) {
      return null;
    }
    if (record == null || !record.isObject() || record.has("deleted") && !record.get("deleted").isBoolean() || record.path("deleted").asBoolean()) {
      return null;
    }
    JsonNode stream = record.path("stream"), at = record.path("at");
    if (!whole(stream) || !whole(at)) {
      return null;
    }
    String sender = text(record.path("sender")), id = text(record.path("id")), name = text(record.path("name")), text = text(record.path("text"));
    if (!isId(sender) || !isId(id) || !readable(name, MAX_NAME) || !readable(text, MAX_TEXT) || !mentions(record.get("mentions"))) {
      return null;
    }
    return new Message(stream.longValue(), sender, id, text);
  }

  private static boolean whole(JsonNode n) {
    return n.isIntegralNumber() && n.canConvertToLong() && n.longValue() >= 1 && n.longValue() <= MAX_STREAM;
  }

  private static String text(JsonNode n) {
    return n.isTextual() ? n.textValue() : null;
  }

  private static boolean mentions(JsonNode all) {
    if (all == null || all.isNull()) {
      return true;
    }
    if (!all.isArray() || all.size() > MAX_MENTIONS) {
      return false;
    }
    for (JsonNode user : all) {
      if (!isId(text(user))) {
        return false;
      }
    }
    return true;
  }

  private static boolean isId(String id) {
    return id != null && !id.isEmpty() && id.length() <= MAX_ID && id.chars().allMatch(c -> c < 0x80 && Character.isLetterOrDigit(c) || ".-_".indexOf(c) >= 0);
  }

  /** Whether there is something to read, and nothing that no text has. */
  private static boolean readable(String text, int longest) {
    if (text == null || text.codePointCount(0, text.length()) > longest) {
      return false;
    }
    boolean some = false;
    for (int c : text.codePoints().toArray()) {
      switch (Character.getType(c)) {
        case Character.CONTROL:
        case Character.SURROGATE: // half of one
          return false;
        case Character.SPACE_SEPARATOR:
        case Character.LINE_SEPARATOR:
        case Character.PARAGRAPH_SEPARATOR:
        case Character.FORMAT:
        case Character.PRIVATE_USE:
          break;
        default: // also what this Java does not know yet, and Go may
          some = true;
      }
    }
    return some;
  }
}
