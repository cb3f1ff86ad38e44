// The script of the recording beside it, and of the test with a real k6.
import http from 'k6/http';
import { check, sleep } from 'k6';

export const options = {
  scenarios: {
    users: { executor: 'per-vu-iterations', vus: 2, iterations: 4, exec: 'users' },
    arrivals: { executor: 'constant-arrival-rate', rate: 10, timeUnit: '1s', duration: '1s', preAllocatedVUs: 1, maxVUs: 1, exec: 'arrivals' },
  },
  thresholds: { http_req_duration: ['p(95)<0.001'] },
};

export function setup() {
  http.get(`${__ENV.BASE_URL}/setup`);
}

export function users() {
  const answer = http.get(`${__ENV.BASE_URL}/student/${__ITER}`, { tags: { name: 'look up' } });
  check(answer, { 'is 200': (r) => r.status === 200, 'is empty': (r) => r.body.length === 0 });
  http.get('http://127.0.0.1:1/', { tags: { name: 'refused' } });
  sleep(0.4);
}

export function arrivals() {
  http.get(`${__ENV.TARGET}/missing`, { tags: { name: 'missing' } });
  sleep(0.25);
}
