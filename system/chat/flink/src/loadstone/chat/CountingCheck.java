package loadstone.chat;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * Says what counting costs, for who compares: of as many messages in as many streams as its arguments say, one line of CPU
 * nanoseconds for each pair of them. The first pair is counted twice, and the first time, in which Java is compiled, is left out.
 */
public final class CountingCheck {
  private CountingCheck() {}

  public static void main(String[] args) throws Exception {
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
}
