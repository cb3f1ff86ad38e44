package loadstone.chat;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.core.execution.RecoveryClaimMode;
import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;
import org.apache.flink.metrics.Counter;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.admin.Admin;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.OffsetResetStrategy;

/**
 * Says of each stream of a chat what its messages are, in all: from raw-chats to analysis-result.
 *
 * <pre>
 *   raw-chats ─► classify, on all subtasks ─► by stream: totals ─► analysis-result
 * </pre>
 *
 * What costs something, the label, is done before the messages of a stream come together on one subtask,
 * where they are only counted: a hot room is no hot subtask. With {@code --original} it is the other way
 * round, as the predecessor had it: all messages of a stream go to one subtask, which does all.
 *
 * <p>A message counts once: who has it is known by its sender and id, for as long as its sender may send it again. Counts
 * and ids are in checkpoints together with the offsets of what was read. Whoever starts the job, as a job manager that was
 * killed, has it go on from its newest checkpoint. Where there is none it begins at the offsets that its group has
 * committed, at first with the oldest record. Viewers are told five times a second at most.
 *
 * <p>A record that is no message is left out and counted (the metric malformed): the sink puts it aside.
 */
public final class Analysis {
  private Analysis() {}

  /** The shortest time between two updates of a stream, in milliseconds. */
  private static final long EVERY = 200;

  private static final String TOPIC = "raw-chats";

  public static void main(String[] args) throws Exception {
    Map<String, String> given = flags(args);
    StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration(given));
    env.setParallelism(Integer.parseInt(given.get("parallelism")));
    env.enableCheckpointing(Long.parseLong(given.get("checkpoint-millis")));
    String brokers = given.get("kafka");
    String checkpoints = env.getConfiguration().get(CheckpointingOptions.CHECKPOINTS_DIRECTORY);
    if (checkpoints != null) {
      env.configure(goOn(new Path(checkpoints, topicId(brokers) + (given.containsKey("original") ? "-original" : ""))));
    }
    KafkaSource<byte[]> source =
        KafkaSource.<byte[]>builder()
            .setBootstrapServers(brokers)
            .setTopics(TOPIC)
            .setGroupId("analysis")
            .setStartingOffsets(OffsetsInitializer.committedOffsets(OffsetResetStrategy.EARLIEST))
            // By default brokers are asked anew for each message. So one may wait for a tenth of a second.
            .setProperty("fetch.min.bytes", "32768")
            .setProperty("fetch.max.wait.ms", "100")
            .setDeserializer(new Values())
            .build();
    KafkaSink<byte[]> sink =
        KafkaSink.<byte[]>builder()
            .setBootstrapServers(brokers)
            .setRecordSerializer(
                KafkaRecordSerializationSchema.<byte[]>builder()
                    .setTopic("analysis-result")
                    .setKeySerializationSchema(new StreamOf())
                    .setValueSerializationSchema(new Bytes())
                    .build())
            .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
            .build();
    Duration remember = Duration.ofSeconds(Long.parseLong(given.get("remember-seconds")));
    Weight weight = new Weight(Long.parseLong(given.get("weight-micros")), given.get("weight").equals("cpu"));
    DataStream<byte[]> raw = env.fromSource(source, WatermarkStrategy.noWatermarks(), "raw-chats").uid("raw-chats");
    DataStream<byte[]> found;
    if (given.containsKey("original")) {
      found =
          raw.flatMap(new Read()).returns(Types.TUPLE(Types.LONG, Types.STRING, Types.STRING)).name("read").uid("read")
              .keyBy(m -> m.f0)
              .process(new Judge(weight, remember)).returns(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO).name("judge").uid("judge");
    } else {
      found =
          raw.rebalance() // lanes are not spread evenly over partitions
              .flatMap(new Classify(weight)).returns(Types.TUPLE(Types.LONG, Types.STRING, Types.INT)).name("classify").uid("classify")
              .keyBy(m -> m.f0)
              .process(new Totals(remember)).returns(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO).name("totals").uid("totals");
    }
    found.sinkTo(sink).name("analysis-result").uid("analysis-result");
    env.execute("chat analysis");
  }

  /**
   * The id of the topic: one that was made anew has another, and what was read of the one before is not of it.
   */
  private static String topicId(String brokers) throws Exception {
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", brokers))) {
      return admin.describeTopics(List.of(TOPIC)).allTopicNames().get().get(TOPIC).topicId().toString();
    }
  }

  /** Has a job go on from the newest checkpoint in a directory, and keep its own there when it ends. */
  private static Configuration goOn(Path directory) throws IOException {
    Configuration c = new Configuration();
    c.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, directory.toString());
    c.set(CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION, ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
    Path newest = newest(directory);
    if (newest != null) {
      c.set(StateRecoveryOptions.SAVEPOINT_PATH, newest.toString());
      c.set(StateRecoveryOptions.RESTORE_MODE, RecoveryClaimMode.CLAIM); // it deletes it when it has another
    }
    return c;
  }

  /**
   * The newest checkpoint in a directory, which has one for each start of the job, or null. Those of a start are counted on
   * from the one that it went on from. One that is not whole has no metadata.
   */
  private static Path newest(Path directory) throws IOException {
    FileSystem files = directory.getFileSystem();
    Path newest = null;
    long most = -1;
    for (Path start : in(files, directory)) {
      for (Path checkpoint : in(files, start)) {
        if (checkpoint.getName().matches("chk-\\d+") && files.exists(new Path(checkpoint, "_metadata"))) {
          long number = Long.parseLong(checkpoint.getName().substring("chk-".length()));
          if (number > most) {
            most = number;
            newest = checkpoint;
          }
        }
      }
    }
    return newest;
  }

  /** What is in a directory; nothing if it is none. */
  private static List<Path> in(FileSystem files, Path directory) throws IOException {
    if (!files.exists(directory) || !files.getFileStatus(directory).isDir()) {
      return List.of();
    }
    return Arrays.stream(files.listStatus(directory)).map(FileStatus::getPath).toList();
  }

  /** The flags with their defaults. */
  static Map<String, String> flags(String[] args) {
    Map<String, String> given =
        new HashMap<>(Map.of("kafka", "", "parallelism", "1", "checkpoint-millis", "5000", "remember-seconds", "600", "weight-micros", "0", "weight", "wait", "checkpoints", ""));
    List<String> known = List.of("kafka", "parallelism", "checkpoint-millis", "remember-seconds", "weight-micros", "weight", "checkpoints");
    for (int i = 0; i < args.length; i++) {
      String name = args[i].replaceFirst("^--", "");
      if (name.equals("original")) {
        given.put(name, "true");
      } else if (known.contains(name) && i + 1 < args.length) {
        given.put(name, args[++i]);
      } else {
        throw new IllegalArgumentException("there is no flag " + args[i] + ": write --original, or one of " + known + " with a value");
      }
    }
    if (given.get("kafka").isEmpty()) {
      throw new IllegalArgumentException("--kafka is missing: write the brokers, HOST:PORT");
    }
    if (Long.parseLong(given.get("remember-seconds")) < 1) {
      throw new IllegalArgumentException("--remember-seconds is " + given.get("remember-seconds") + ": write 1 or more");
    }
    if (!given.get("weight").equals("wait") && !given.get("weight").equals("cpu")) {
      throw new IllegalArgumentException("--weight is " + given.get("weight") + ": write wait or cpu");
    }
    return given;
  }

  /** What a cluster has in its own configuration, and a process by itself from here. */
  private static Configuration configuration(Map<String, String> given) {
    Configuration c = new Configuration();
    if (!given.get("checkpoints").isEmpty()) {
      c.setString("execution.checkpointing.storage", "filesystem");
      c.setString("execution.checkpointing.dir", given.get("checkpoints"));
      c.setString("restart-strategy.type", "fixed-delay");
      c.setString("restart-strategy.fixed-delay.attempts", "100");
      c.setString("restart-strategy.fixed-delay.delay", "1s");
    }
    return c;
  }

  /**
   * The openly declared cost of a message beside its label, in microseconds: waiting, as for a model elsewhere,
   * or computing, as a larger model here.
   */
  static final class Weight implements java.io.Serializable {
    private final long micros;
    private final boolean cpu;

    Weight(long micros, boolean cpu) {
      this.micros = micros;
      this.cpu = cpu;
    }

    void bear() {
      long until = System.nanoTime() + micros * 1000;
      for (long left = micros * 1000; left > 0; left = until - System.nanoTime()) {
        if (!cpu) {
          LockSupport.parkNanos(left);
        }
      }
    }
  }

  /** A message's label, once it was read. */
  static final class Classify extends RichFlatMapFunction<byte[], Tuple3<Long, String, Integer>> {
    private final Weight weight;
    private transient Labels labels;
    private transient Counter malformed;

    Classify(Weight weight) {
      this.weight = weight;
    }

    @Override
    public void open(OpenContext context) throws IOException {
      labels = ownLabels();
      malformed = getRuntimeContext().getMetricGroup().counter("malformed");
    }

    @Override
    public void flatMap(byte[] value, Collector<Tuple3<Long, String, Integer>> out) {
      Message m = Message.parse(value);
      if (m == null) {
        malformed.inc();
        return;
      }
      weight.bear();
      out.collect(Tuple3.of(m.stream, m.sender + "/" + m.id, labels.classify(m.text)));
    }
  }

  /** A message as it was read: stream, who it is, text. */
  static final class Read extends RichFlatMapFunction<byte[], Tuple3<Long, String, String>> {
    private transient Counter malformed;

    @Override
    public void open(OpenContext context) {
      malformed = getRuntimeContext().getMetricGroup().counter("malformed");
    }

    @Override
    public void flatMap(byte[] value, Collector<Tuple3<Long, String, String>> out) {
      Message m = Message.parse(value);
      if (m == null) {
        malformed.inc();
        return;
      }
      out.collect(Tuple3.of(m.stream, m.sender + "/" + m.id, m.text));
    }
  }

  /**
   * Counts the messages of a stream, and tells now and then.
   *
   * <p>Who came is known for remember at least and for twice that at most: of this span and the one before, each in a map of
   * its own, which is emptied at once. With a time to live of each id Flink would look through all of a stream's ids with every
   * message, for it cleans up by keys, and a stream is one.
   */
  abstract static class Counting<T> extends KeyedProcessFunction<Long, T, byte[]> {
    private final long remember;
    private transient List<MapState<String, Boolean>> known; // of even and of odd spans
    private transient ValueState<Long> span; // the newest of which somebody is known, in spans of remember
    private transient ValueState<long[]> counts;
    private transient ValueState<Long> due; // when it is told

    Counting(Duration remember) {
      this.remember = remember.toMillis();
    }

    @Override
    public void open(OpenContext context) throws Exception {
      known = List.of(ids("even"), ids("odd"));
      span = getRuntimeContext().getState(new ValueStateDescriptor<>("span", Types.LONG));
      counts = getRuntimeContext().getState(new ValueStateDescriptor<>("counts", PrimitiveArrayTypeInfo.LONG_PRIMITIVE_ARRAY_TYPE_INFO));
      due = getRuntimeContext().getState(new ValueStateDescriptor<>("due at", Types.LONG));
    }

    private MapState<String, Boolean> ids(String spans) {
      return getRuntimeContext().getMapState(new MapStateDescriptor<>("known in " + spans + " spans", Types.STRING, Types.BOOLEAN));
    }

    /** Whether a message came before; from now on it has. */
    boolean again(String who, Context context) throws Exception {
      long now = context.timerService().currentProcessingTime() / remember;
      Long last = span.value();
      if (last != null && last > now + 1) { // the clock was far ahead, or spans were shorter
        forget(last + 2);
        last = null;
      }
      if (last == null || last < now) {
        forget(now);
        span.update(now);
        context.timerService().registerProcessingTimeTimer((now + 2) * remember);
      } else {
        now = last; // also where the clock was set back a little
      }
      MapState<String, Boolean> here = known.get((int) (now % 2));
      if (here.contains(who) || known.get((int) ((now + 1) % 2)).contains(who)) {
        return true;
      }
      here.put(who, true);
      return false;
    }

    /** Forgets who came before the span before a span. */
    private void forget(long now) throws Exception {
      Long last = span.value();
      if (last == null || now <= last) {
        return;
      }
      known.get((int) (now % 2)).clear();
      if (now > last + 1) {
        known.get((int) ((now + 1) % 2)).clear();
        span.clear();
      }
    }

    void count(int label, Context context) throws Exception {
      long[] all = counts.value();
      all = all == null ? new long[Labels.NAMES.length] : all.clone();
      all[label]++;
      counts.update(all);
      long at = context.timerService().currentProcessingTime() + EVERY;
      if (due.value() == null || due.value() > at) { // the clock was set back
        due.update(at);
        context.timerService().registerProcessingTimeTimer(at);
      }
    }

    @Override
    public void onTimer(long at, OnTimerContext context, Collector<byte[]> out) throws Exception {
      forget(at / remember); // nobody has come since
      if (!Objects.equals(due.value(), at)) {
        return;
      }
      due.clear();
      long[] all = counts.value();
      long next = 0;
      StringBuilder labels = new StringBuilder();
      for (int l = 0; l < all.length; l++) {
        next += all[l];
        labels.append(l == 0 ? "" : ",").append('"').append(Labels.NAMES[l]).append("\":").append(all[l]);
      }
      String told =
          "{\"stream\":" + context.getCurrentKey() + ",\"type\":\"totals\",\"next\":" + next + ",\"labels\":{" + labels + "},\"deleted\":0,\"dead\":0}";
      out.collect(told.getBytes(StandardCharsets.UTF_8));
    }
  }

  /** Totals of messages that have their labels. */
  static final class Totals extends Counting<Tuple3<Long, String, Integer>> {
    Totals(Duration remember) {
      super(remember);
    }

    @Override
    public void processElement(Tuple3<Long, String, Integer> m, Context context, Collector<byte[]> out) throws Exception {
      if (!again(m.f1, context)) {
        count(m.f2, context);
      }
    }
  }

  /** Labels and totals, both by stream: the original. */
  static final class Judge extends Counting<Tuple3<Long, String, String>> {
    private final Weight weight;
    private transient Labels labels;

    Judge(Weight weight, Duration remember) {
      super(remember);
      this.weight = weight;
    }

    @Override
    public void open(OpenContext context) throws Exception {
      super.open(context);
      labels = ownLabels();
    }

    @Override
    public void processElement(Tuple3<Long, String, String> m, Context context, Collector<byte[]> out) throws Exception {
      if (!again(m.f1, context)) {
        weight.bear();
        count(labels.classify(m.f2), context);
      }
    }
  }

  /** The labels by the files that come with the job. */
  private static Labels ownLabels() throws IOException {
    return new Labels(resource("model.bin"), resource("fold.tsv"));
  }

  private static byte[] resource(String name) throws IOException {
    try (InputStream in = Analysis.class.getResourceAsStream(name)) {
      if (in == null) {
        throw new IOException(name + " is not in the job's jar");
      }
      return in.readAllBytes();
    }
  }

  /** The values of records, as they are. */
  static final class Values implements KafkaRecordDeserializationSchema<byte[]> {
    @Override
    public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<byte[]> out) {
      out.collect(record.value() == null ? new byte[0] : record.value());
    }

    @Override
    public TypeInformation<byte[]> getProducedType() {
      return PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
    }
  }

  static final class Bytes implements SerializationSchema<byte[]> {
    @Override
    public byte[] serialize(byte[] told) {
      return told;
    }
  }

  /** The key of what is told: its stream, so that the totals of one stay in order. */
  static final class StreamOf implements SerializationSchema<byte[]> {
    @Override
    public byte[] serialize(byte[] told) {
      int from = "{\"stream\":".length();
      int to = from;
      while (told[to] != ',') {
        to++;
      }
      return Arrays.copyOfRange(told, from, to);
    }
  }
}
