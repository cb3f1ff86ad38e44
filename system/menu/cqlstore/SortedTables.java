import ch.qos.logback.classic.Level;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import javax.management.JMX;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;
import org.apache.cassandra.db.ColumnFamilyStoreMBean;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.io.sstable.CQLSSTableWriter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes rows that come through a pipe as sorted tables, and has nodes import them: what tables.go
 * of this directory starts and talks to.
 *
 * Arguments: keyspace, table, the statements that make the table and that insert a row, and
 * HOST:PORT of each node's JMX. Every node gets all tables, from a directory of its own.
 *
 * Input: chunks, each the length and bytes of a directory's path, the number of rows, and rows: id,
 * tag, the length and bytes of the body. Numbers are big-endian; ids and tags have 64 bits, the
 * others 32. Output: a line for each chunk, empty when every node has imported it, else what was
 * wrong, and then no more. It ends with its input.
 */
@SuppressWarnings("deprecation") // nodes of 4.1 have this form of the import, too
class SortedTables {
  /** How many bytes of bodies are sorted at a time: more make another table. */
  private static final int TABLE_BYTES = 64 << 20;

  private record Row(DecoratedKey key, ByteBuffer tag, ByteBuffer body) {}

  private static String schema;
  private static String insert;

  public static void main(String[] args) throws Exception {
    PrintStream out = System.out;
    System.setOut(System.err); // for logs
    ((ch.qos.logback.classic.Logger) LoggerFactory.getLogger(Logger.ROOT_LOGGER_NAME)).setLevel(Level.ERROR);
    // Tables get the format that is chosen when this class is loaded: of Cassandra 4, which every
    // node reads. The writer would choose that of 5, and nodes that are compatible with 4, as they
    // are unless they are told otherwise, take such tables for none, without an error.
    Class.forName("org.apache.cassandra.io.sstable.format.big.BigFormat$BigVersion");
    schema = args[2];
    insert = args[3];
    List<ColumnFamilyStoreMBean> nodes = new ArrayList<>();
    var in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
    String wrong = "";
    for (int length; wrong.isEmpty() && (length = next(in)) >= 0; ) {
      Path directory = Path.of(new String(in.readNBytes(length), StandardCharsets.UTF_8));
      try {
        write(in, directory);
        for (int i = 4; i < args.length; i++) {
          if (nodes.size() == i - 4) nodes.add(connect(args[i], args[0], args[1]));
          give(directory, nodes.get(i - 4), args[i], i == args.length - 1);
        }
      } catch (EOFException e) {
        throw e;
      } catch (Throwable e) {
        wrong = e.toString().replace('\n', ' ');
      }
      out.println(wrong);
      out.flush();
    }
    System.exit(wrong.isEmpty() ? 0 : 1); // whatever its threads
  }

  private static int next(DataInputStream in) throws IOException {
    try {
      return in.readInt();
    } catch (EOFException e) {
      return -1;
    }
  }

  private static void write(DataInputStream in, Path directory) throws IOException {
    List<Row> rows = new ArrayList<>();
    int size = 0;
    for (int left = in.readInt(); left > 0; left--) {
      byte[] id = in.readNBytes(8), tag = in.readNBytes(8), body = in.readNBytes(in.readInt());
      rows.add(new Row(Murmur3Partitioner.instance.decorateKey(ByteBuffer.wrap(id)), ByteBuffer.wrap(tag), ByteBuffer.wrap(body)));
      size += body.length;
      if (size < TABLE_BYTES && left > 1) continue;
      rows.sort((a, b) -> a.key.compareTo(b.key));
      try (var table = CQLSSTableWriter.builder().inDirectory(directory.toString()).forTable(schema).using(insert).sorted().build()) {
        for (Row row : rows) table.rawAddRow(row.key.getKey(), row.tag, row.body);
      }
      rows.clear();
      size = 0;
    }
    // The writer makes filters for no rows, which let every look-up through. A node makes the
    // filter that is missing.
    for (Path file : files(directory)) if (file.toString().endsWith("-Filter.db")) Files.delete(file);
  }

  /**
   * Has a node move the tables to its own: the last one the files, those before it links. Nodes take
   * none from a path whose last two names have more than letters, digits and underscores.
   */
  private static void give(Path directory, ColumnFamilyStoreMBean node, String name, boolean last) throws IOException {
    Path own = directory;
    if (!last) {
      own = Files.createDirectory(directory.resolve("node" + name.replaceAll("\\W", "_")));
      Files.setPosixFilePermissions(own, Files.getPosixFilePermissions(directory));
      for (Path file : files(directory)) Files.createLink(own.resolve(file.getFileName()), file);
    }
    // Sums and tokens are checked, and rows in caches forgotten.
    var failed = node.importNewSSTables(Set.of(own.toString()), false, false, true, true, true, false, false);
    if (!failed.isEmpty()) throw new IOException("node " + name + " refused the tables: its log says why");
    for (Path file : files(own)) {
      if (file.toString().endsWith("-Data.db")) throw new IOException("node " + name + " took no tables from " + own + ": is that the same directory there?");
    }
  }

  private static List<Path> files(Path directory) throws IOException {
    try (var all = Files.list(directory)) {
      return all.filter(Files::isRegularFile).toList();
    }
  }

  private static ColumnFamilyStoreMBean connect(String node, String keyspace, String table) throws Exception {
    JMXConnector jmx = JMXConnectorFactory.connect(new JMXServiceURL("service:jmx:rmi:///jndi/rmi://" + node + "/jmxrmi"));
    var name = new ObjectName("org.apache.cassandra.db:type=Tables,keyspace=" + keyspace + ",table=" + table);
    return JMX.newMBeanProxy(jmx.getMBeanServerConnection(), name, ColumnFamilyStoreMBean.class);
  }
}
