import java.io.FileInputStream;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * One instance of an application that counts the words of the lines in a topic, with a repartition
 * topic and a store: `WordCount PROPERTIES LINES COUNTS`. It prints each of its states. The word
 * "shutdown" ends all instances of the application.
 */
public final class WordCount {
  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    try (FileInputStream file = new FileInputStream(arguments[0])) {
      properties.load(file);
    }
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(arguments[1], Consumed.with(Serdes.String(), Serdes.String()))
        .flatMapValues(line -> Arrays.asList(line.split(" ")))
        .map((key, word) -> {
          if (word.equals("shutdown")) {
            throw new IllegalStateException("a line says so");
          }
          return new org.apache.kafka.streams.KeyValue<>(word, word);
        })
        .groupByKey(Grouped.with("words", Serdes.String(), Serdes.String()))
        .count(Materialized.as("counts"))
        .toStream()
        .mapValues(count -> Long.toString(count))
        .to(arguments[2], Produced.with(Serdes.String(), Serdes.String()));
    KafkaStreams streams = new KafkaStreams(builder.build(), properties);
    streams.setUncaughtExceptionHandler(
        failure -> {
          System.out.println("FAILED " + failure);
          return StreamThreadExceptionResponse.SHUTDOWN_APPLICATION;
        });
    streams.setStateListener((now, before) -> System.out.println("STATE " + now));
    Runtime.getRuntime()
        .addShutdownHook(new Thread(() -> {
          streams.close(Duration.ofSeconds(60));
          System.out.println("CLOSED");
        }));
    streams.start();
  }
}
