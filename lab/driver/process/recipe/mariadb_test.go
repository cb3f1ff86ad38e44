package recipe

import (
	"strings"
	"testing"
)

func TestMariaDBStatements(t *testing.T) {
	t.Parallel()
	statements := func(env map[string]string) (string, error) {
		in := testInstance(t)
		in.Service.Environment = env
		return (&mariadb{Instance: in}).statements()
	}
	got, err := statements(map[string]string{"MARIADB_ROOT_PASSWORD": `it's a \`, "MYSQL_DATABASE": "a`b_c", "MARIADB_USER": "o'k", "MARIADB_PASSWORD": "p"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`CREATE USER 'root'@'%' IDENTIFIED BY 'it''s a \\';`, "CREATE DATABASE IF NOT EXISTS `a``b_c`;", "CREATE OR REPLACE USER 'o''k'@'%' IDENTIFIED BY 'p';", "GRANT ALL ON `a``b\\_c`.* TO 'o''k'@'%';",
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
	for name, env := range map[string]map[string]string{
		"no password":           {},
		"a user without one":    {"MARIADB_ALLOW_EMPTY_ROOT_PASSWORD": "1", "MARIADB_USER": "a"},
		"a password of 2 lines": {"MARIADB_ROOT_PASSWORD": "a\nb"},
		"a file that is none":   {"MARIADB_ROOT_PASSWORD_FILE": "/nowhere"},
	} {
		if _, err := statements(env); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
