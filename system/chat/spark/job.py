"""The job of Spark that answers summary-requests: what stands for the messages of each, to summary-results.

A record that is no request goes to summary-requests-dead, with the reason, and stops nothing. What was
answered, and not known to be when the job was killed, is answered again: the same. Without its checkpoints the job
answers all that Kafka still has; who hears it leaves out what is older than what is kept.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7 --py-files summary.py job.py \\
        --kafka HOST:PORT --folds fold.tsv --checkpoints DIRECTORY
"""

import argparse
import json

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

import summary

REQUESTS, RESULTS = "summary-requests", "summary-results"
DEAD = REQUESTS + "-dead"
# What becomes of a record, as the sink of Kafka has it.
ANSWER = "topic string, key binary, value binary, headers array<struct<key: string, value: binary>>"


def answer(folds, value):
    """What is told of a request. It raises an error if it is none."""
    request = json.loads(bytes(value).decode("utf-8"))
    stream, messages = request["stream"], request["messages"]
    if type(stream) is not int or stream < 1 or type(messages) is not list or not 0 < len(messages) <= summary.SUMMARY_OF:
        raise ValueError("a request has a stream, and 1 to %d messages" % summary.SUMMARY_OF)
    lines = [{"offset": m["offset"], "name": m["name"], "text": m["text"]} for m in messages]
    for line in lines:
        if [type(v) for v in line.values()] != [int, str, str]:
            raise ValueError("a message has an offset, a name and a text")
    told = {
        "stream": stream,
        "type": "summary",
        "from": lines[0]["offset"],
        "next": lines[-1]["offset"] + 1,
        "lines": [lines[i] for i in summary.summarise(folds, [line["text"] for line in lines])],
        "text": "",
    }
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def become(folds):
    def of(key, value, partition, offset):
        try:
            return RESULTS, key, answer(folds, value), None
        except Exception as e:  # whatever it is, the records behind it are not to wait
            headers = {"reason": repr(e)[:200], "place": "%s %d %d" % (REQUESTS, partition, offset)}
            return DEAD, key, value, [(name, text.encode("utf-8", "replace")) for name, text in headers.items()]

    return udf(of, ANSWER)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--kafka", required=True)
    p.add_argument("--folds", required=True)
    p.add_argument("--checkpoints", required=True)
    args = p.parse_args()
    spark = SparkSession.builder.appName("summaries").getOrCreate()
    requests = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", args.kafka)
        .option("subscribe", REQUESTS)
        .option("startingOffsets", "earliest")  # where there is no checkpoint
        .option("failOnDataLoss", "false")  # what Kafka kept no longer is not asked for any more
        .option("maxOffsetsPerTrigger", 400)
        .load()
    )
    of = become(summary.read_folds(args.folds))
    answers = requests.select(of("key", "value", "partition", "offset").alias("a")).select("a.*")
    (
        answers.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", args.kafka)
        .option("checkpointLocation", args.checkpoints)
        .trigger(processingTime="1 second")
        .start()
        .awaitTermination()
    )


if __name__ == "__main__":
    main()
