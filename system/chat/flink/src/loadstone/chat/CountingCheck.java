package loadstone.chat;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * Says what counting costs, for who compares: of as many messages in as many streams as its arguments say, one line of CPU
 * nanoseconds for each pair of them. The first pair is counted twice, and the first time, in which Java is compiled, is left out.
 * With a single argument it says what is told of a message that comes twice at once and again after so many seconds, where
 * messages are known for a third of that.
 */
public final class CountingCheck {
  private static final AtomicInteger TOLD = new AtomicInteger(); // so many totals of again

  private CountingCheck() {}

  public static void main(String[] args) throws Exception {
    if (args.length == 1) {
      again(Long.parseLong(args[0]));
      return;
    }
    OperatingSystemMXBean used = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    count(Long.parseLong(args[0]), Long.parseLong(args[1]));
    for (int i = 0; i < args.length; i += 2) {
      long before = used.getProcessCpuTime();
      count(Long.parseLong(args[i]), Long.parseLong(args[i + 1]));
      System.out.println(used.getProcessCpuTime() - before);
    }
  }

  private static void count(long messages, long streams) throws Exception {
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1);
    env.fromSequence(0, messages - 1)
        .map(n -> Tuple3.of(n % streams, "guest/" + n, 0)).returns(Types.TUPLE(Types.LONG, Types.STRING, Types.INT))
        .keyBy(m -> m.f0)
        .process(new Analysis.Totals(Duration.ofMinutes(10))).returns(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO)
        .sinkTo(new DiscardingSink<>());
    env.execute();
  }

  private static void again(long seconds) throws Exception {
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1);
    env.fromSequence(0, 3)
        .map(n -> {
          awaitTold(n - 1);
          Thread.sleep(n == 2 ? seconds * 1000 : 0);
          return Tuple3.of(n / 3, "guest/1", 0);
        }).returns(Types.TUPLE(Types.LONG, Types.STRING, Types.INT))
        .keyBy(m -> m.f0)
        .process(new Analysis.Totals(Duration.ofMillis(seconds * 1000 / 3))).returns(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO)
        .map(told -> {
          TOLD.incrementAndGet();
          return new String(told, java.nio.charset.StandardCharsets.UTF_8);
        }).returns(Types.STRING)
        .print();
    env.execute();
  }

  /** Waits until so much is told, a minute at most: nothing is any more once the source has ended. */
  private static void awaitTold(long count) throws InterruptedException {
    for (long end = System.nanoTime() + Duration.ofMinutes(1).toNanos(); TOLD.get() < count && System.nanoTime() < end; ) {
      Thread.sleep(10);
    }
  }
}
