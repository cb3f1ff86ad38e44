import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.admin.AdminClient;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.admin.NewTopic;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.serialization.StringSerializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** Fills a topic, and has its records worked on by three subtasks, each for a while: the brokers are the argument. */
public final class Work {
  private Work() {}

  public static void main(String[] args) throws Exception {
    try (AdminClient admin = AdminClient.create(Map.of("bootstrap.servers", args[0]))) {
      admin.createTopics(java.util.List.of(new NewTopic("orders", 3, (short) 1))).all().get();
    }
    try (KafkaProducer<String, String> producer = new KafkaProducer<>(Map.of("bootstrap.servers", args[0]), new StringSerializer(), new StringSerializer())) {
      for (int i = 0; i < 300_000; i++) {
        producer.send(new ProducerRecord<>("orders", i % 3, null, "a record of some length, " + i));
      }
    }
    StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
    env.setParallelism(3);
    KafkaSource<String> source =
        KafkaSource.<String>builder().setBootstrapServers(args[0]).setTopics("orders").setGroupId("work").setStartingOffsets(OffsetsInitializer.earliest()).setValueOnlyDeserializer(new SimpleStringSchema()).build();
    env.fromSource(source, WatermarkStrategy.noWatermarks(), "orders.in/all")
        .rebalance()
        .map(
            (MapFunction<String, String>)
                text -> {
                  Thread.sleep(5);
                  return text;
                })
        .returns(Types.STRING)
        .name("work")
        .sinkTo(new DiscardingSink<>())
        .name("away");
    env.execute("work");
  }
}
