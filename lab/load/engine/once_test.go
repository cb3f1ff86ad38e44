package engine

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/loadtest"
)

// account is a server that has to be logged into once, and out of.
type account struct {
	*httptest.Server
	mu     sync.Mutex
	logins int
	outs   []string
	right  int // requests with the token
	wrong  int
	refuse bool // the login
}

func openAccount(t *testing.T) *account {
	t.Helper()
	a := &account{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		token := fmt.Sprintf(`t/"%d é`, a.logins)
		switch r.URL.Path {
		case "/login":
			if a.refuse {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			a.logins++
			fmt.Fprintf(w, `{"token": "t/\"%d é", "admin": true}`, a.logins)
		case "/logout":
			a.outs = append(a.outs, r.URL.Query().Get("token"))
			if r.URL.Query().Get("token") != token {
				w.WriteHeader(http.StatusBadRequest)
			}
		default:
			if r.URL.Query().Get("token") == token && r.Header.Get("X-Token") == token {
				a.right++
			} else {
				a.wrong++
			}
		}
	}))
	t.Cleanup(a.Close)
	return a
}

// onceOf is a scenario of one iteration.
func onceOf(name string, steps ...load.Step) *load.Scenario {
	return &load.Scenario{
		Name: name, Executor: load.PerVUIterations, VUs: 1, Iterations: 1, Duration: 2 * time.Minute, Arrivals: load.Poisson, Steps: steps,
	}
}

// account's load: a login, requests with the token that it brought, and a logout.
func (a *account) plan() load.Plan {
	plan := loadtest.ClosedPlan(a.URL, 2, 10*time.Second)
	s := &plan.Scenarios[0]
	s.Executor, s.Iterations = load.SharedIterations, 10
	admin := getStep("admin", "/admin?token={token}")
	admin.Request.Header = map[string]string{"X-Token": "{token}"}
	s.Steps = []load.Step{admin, getStep("never", "/never")}
	s.Flow = []load.Part{{Step: 0, If: []load.Condition{{Value: "admin", Is: []string{"true"}}}}, {Step: 1, If: []load.Condition{{Value: "admin", Is: []string{"no"}}}}}
	login := load.Step{Name: "login", Request: load.Request{Method: http.MethodPost, Path: "/login"}}
	login.Extract = map[string]load.Extract{"token": {JSON: "token"}, "admin": {JSON: "admin"}}
	plan.Setup, plan.Teardown = onceOf("setup", login), onceOf("teardown", getStep("logout", "/logout?token={token}"))
	return plan
}

func TestSetupAndTeardown(t *testing.T) {
	t.Parallel()
	a := openAccount(t)
	r, _ := mustRun(t, a.plan())
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Requests != 10 || r.Failed > 0 || len(r.Steps) != 2 || len(r.Notes) > 0 {
		t.Errorf("%d requests, %d failed, steps %v, notes %v; want ten of the scenario's alone", r.Requests, r.Failed, r.Steps, r.Notes)
	}
	if a.logins != 1 || len(a.outs) != 1 || a.right != 10 || a.wrong != 0 {
		t.Errorf("%d logins, %q, %d right requests, %d wrong; want a login, an out, ten and none", a.logins, a.outs, a.right, a.wrong)
	}
}

func TestSetupThatFailsEndsTheLoad(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*account, *load.Plan){
		`setup: step "login": its answer, of status 403, has no value`: func(a *account, _ *load.Plan) { a.refuse = true },
		`setup: step "login" was answered with 403; see that it is right`: func(a *account, p *load.Plan) {
			a.refuse, p.Setup.Steps[0].Extract, p.Scenarios[0].Steps, p.Scenarios[0].Flow = true, nil, []load.Step{getStep("a", "/a")}, nil
			p.Teardown = nil
		},
		`setup: step "login": its answer, of status 200, has no value at nothing`: func(_ *account, p *load.Plan) {
			p.Setup.Steps[0].Extract["token"] = load.Extract{JSON: "nothing"}
		},
		`setup: step "login": the check "greets" does not hold`: func(_ *account, p *load.Plan) {
			p.Setup.Steps[0].Checks = []load.Check{{Name: "greets", Contains: "hello"}}
		},
	} {
		a := openAccount(t)
		plan := a.plan()
		a.mu.Lock()
		change(a, &plan)
		a.mu.Unlock()
		_, err := Run(t.Context(), plan, nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		a.mu.Lock()
		if a.right+a.wrong+len(a.outs) > 0 {
			t.Errorf("after a setup that failed there were %d requests, and %q", a.right+a.wrong, a.outs)
		}
		a.mu.Unlock()
	}
}

func TestTeardownThatFailsIsANote(t *testing.T) {
	t.Parallel()
	a := openAccount(t)
	plan := a.plan()
	plan.Teardown.Steps[0].Request.Path = "/logout?token=wrong"
	r, _ := mustRun(t, plan)
	if r.Requests != 10 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], `teardown: step "logout" was answered with 400`) {
		t.Errorf("%d requests, notes %q; want ten, and a note", r.Requests, r.Notes)
	}
}
