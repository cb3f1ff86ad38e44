package loadstone.chat;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Answers what texts are, for who compares: reads of each its length in four bytes and its bytes, and
 * writes the five sums, the label, and the normal form with its length, all in four bytes, until there
 * is no more. Arguments: model.bin and fold.tsv.
 */
public final class LabelsCheck {
  private LabelsCheck() {}

  public static void main(String[] args) throws IOException {
    Labels labels = new Labels(Files.readAllBytes(Path.of(args[0])), Files.readAllBytes(Path.of(args[1])));
    DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
    DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
    while (true) {
      int length;
      try {
        length = in.readInt();
      } catch (EOFException end) {
        break;
      }
      byte[] text = in.readNBytes(length);
      for (int sum : labels.sums(text)) {
        out.writeInt(sum);
      }
      out.writeInt(labels.classify(text));
      byte[] normal = labels.normal(text).getBytes(StandardCharsets.UTF_8);
      out.writeInt(normal.length);
      out.write(normal);
    }
    out.flush();
  }
}
