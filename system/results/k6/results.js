// Results day, for k6: students look up their results, more and more of them
// until the peak, and then fewer.
//
//   k6 run results.js
//   k6 run -e BASE_URL=https://results.example -e VUS=500 -e THINK=0 -e HOLD=1m results.js
//   loadstone load results.js --target http://127.0.0.1:8080
//
// Settings, as environment variables:
//
//   BASE_URL  where the service is                          http://127.0.0.1:8080
//   VUS       users at the peak                             3000
//   RAMP      how long they take to come, and to go         1m
//   HOLD      how long the peak lasts                       3m
//   THINK     mean seconds between a user's requests        2
//             (drawn evenly from half of it to one and a half; 0 for none)
//   FIRST_ID  the ids to ask for, first and last            10000
//   LAST_ID                                                 674823
//   CODE      an access code, for services that want one; without it the
//             service must be open (RESULTS_ACCESS=open)
//   INSECURE  1: accept any certificate, such as a self-signed one
import http from 'k6/http';
import { check, sleep } from 'k6';
import { Counter, Rate, Trend } from 'k6/metrics';

const target = (__ENV.BASE_URL || 'http://127.0.0.1:8080').replace(/\/+$/, '');
const firstID = whole('FIRST_ID', 10000);
const lastID = whole('LAST_ID', 674823);
const vus = whole('VUS', 3000);
const think = number('THINK', 2);
const ramp = __ENV.RAMP || '1m';
const hold = __ENV.HOLD || '3m';
if (lastID < firstID) {
  throw new Error(`LAST_ID is ${lastID}, must not be below FIRST_ID, ${firstID}`);
}

function number(name, otherwise) {
  const text = __ENV[name];
  if (text === undefined || text === '') return otherwise;
  const n = Number(text);
  if (!Number.isFinite(n) || n < 0) throw new Error(`${name} is ${text}, must be a number that is not negative`);
  return n;
}

function whole(name, otherwise) {
  const n = number(name, otherwise);
  if (!Number.isInteger(n) || n < 1) throw new Error(`${name} is ${n}, must be a whole number from 1`);
  return n;
}

// What k6 does not count by itself.
const found = new Rate('results_found'); // answers that hold a result
const refused = new Counter('results_refused'); // 403, 429 and 503: told to come back
const lookup = new Trend('results_lookup_duration', true); // of found results only

export const options = {
  insecureSkipTLSVerify: __ENV.INSECURE === '1',
  summaryTrendStats: ['avg', 'min', 'med', 'p(90)', 'p(95)', 'p(99)', 'max'],
  scenarios: {
    lookup: {
      executor: 'ramping-vus',
      startVUs: 0,
      stages: [
        { duration: ramp, target: vus },
        { duration: hold, target: vus },
        { duration: ramp, target: 0 },
      ],
      gracefulRampDown: '5s',
    },
  },
  thresholds: {
    http_req_failed: ['rate<0.001'],
    http_req_duration: ['p(95)<200', 'max<2000'],
    results_found: ['rate>0.999'],
    checks: ['rate>0.999'],
  },
};

const params = {
  // Each student's address is another: without a name each would be a metric.
  tags: { name: 'GET /student/{id}' },
  timeout: '10s',
  headers: __ENV.CODE ? { 'X-Access-Code': __ENV.CODE } : {},
};

// Failures are logged one by one, but a service that is down would fill the
// disk: every user logs its first ten.
let logged = 0;

export default function () {
  const id = firstID + Math.floor(Math.random() * (lastID - firstID + 1));
  const answer = http.get(`${target}/student/${id}`, params);
  const ok = check(answer, {
    'status is 200': (r) => r.status === 200,
    'it is the student who was asked for': (r) => r.status === 200 && r.json('id') === id,
  });
  found.add(ok);
  if (ok) {
    lookup.add(answer.timings.duration);
  } else {
    if (answer.status === 403 || answer.status === 429 || answer.status === 503) refused.add(1);
    if (logged < 10) {
      logged++;
      console.error(`id ${id}: status ${answer.status} ${answer.error} after ${answer.timings.duration.toFixed(1)} ms, user ${__VU}`);
    }
  }
  if (think > 0) sleep(think * (0.5 + Math.random()));
}
