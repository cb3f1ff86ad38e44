import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** A job that does little and does not end. */
public final class Sleep {
  private Sleep() {}

  public static void main(String[] args) throws Exception {
    StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
    env.fromSequence(1, Long.MAX_VALUE).map(Sleep::late).sinkTo(new DiscardingSink<>());
    env.execute(args[0]);
  }

  private static Long late(Long n) throws InterruptedException {
    Thread.sleep(10);
    return n;
  }
}
