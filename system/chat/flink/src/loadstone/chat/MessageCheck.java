package loadstone.chat;

import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;

/**
 * Answers which records are messages, for who compares: reads of each its length in four bytes and its
 * bytes, and writes a line, stream, sender, id and text with tabs between, or an empty one.
 */
public final class MessageCheck {
  private MessageCheck() {}

  public static void main(String[] args) throws IOException {
    DataInputStream in = new DataInputStream(System.in);
    StringBuilder out = new StringBuilder();
    while (true) {
      int length;
      try {
        length = in.readInt();
      } catch (EOFException end) {
        break;
      }
      Message m = Message.parse(in.readNBytes(length));
      if (m != null) {
        out.append(m.stream).append('\t').append(m.sender).append('\t').append(m.id).append('\t').append(m.text);
      }
      out.append('\n');
    }
    System.out.write(out.toString().getBytes(java.nio.charset.StandardCharsets.UTF_8));
    System.out.flush();
  }
}
