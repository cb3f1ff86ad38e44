package cqlstore

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// SortedTables is how a store is filled without asking nodes to write each row: programs
// of Cassandra's own write sorted tables, once, and each node imports them. Every node
// must hold every menu, be up, and answer JMX without a password at its address.
type SortedTables struct {
	// Dir is a directory that nodes find under the same absolute path, and may move files
	// out of: those that are made in it get its permissions. It is made if it is not there.
	// Empty: batches.
	Dir string
	// Home is where Cassandra is: jars in lib and, if it has it, Java 17 with its compiler
	// as java, else the one of the PATH.
	Home string
}

// tableMenus is how many menus are a chunk of sorted tables: 80 MB in this program while
// they are read, and 16 MB in a node's table.
const tableMenus = 32 << 10

// maxPrograms bounds the programs that write tables, each with half a gigabyte.
const maxPrograms = 4

// tableTimeout bounds what a chunk takes, which is seconds; a node that compacts on a
// busy machine lets others wait.
const tableTimeout = 5 * time.Minute

// jmxPort is where nodes are asked to import, as by nodetool.
const jmxPort = "7199"

//go:embed SortedTables.java
var tablesProgram []byte

// tables reports whether the store is filled with sorted tables.
func (s *Store) tables() bool { return s.cfg.SortedTables.Dir != "" }

// workshop is where the sorted tables of a filling are made.
type workshop struct {
	store   *Store
	dir     string
	mode    os.FileMode
	command []string
}

// newWorkshop removes what those before it have left behind.
func (s *Store) newWorkshop(ctx context.Context) (*workshop, error) {
	dir, err := filepath.Abs(s.cfg.SortedTables.Dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	var info os.FileInfo
	if err == nil {
		info, err = os.Stat(dir)
	}
	w := &workshop{store: s}
	prefix := s.cfg.Cluster.Keyspace + "_tables_" // other characters would not do, see SortedTables.java
	if err == nil {
		old, _ := filepath.Glob(filepath.Join(dir, prefix+"*")) // of killed ones
		for _, dir := range old {
			_ = os.RemoveAll(dir) // if a program still writes there, the next filling does
		}
		w.mode = info.Mode().Perm()
		w.dir, err = w.mkdir(dir, prefix)
	}
	program := filepath.Join(w.dir, "SortedTables.java")
	if err == nil {
		err = os.WriteFile(program, tablesProgram, 0o600)
	}
	if err == nil {
		err = s.session.Do(ctx, func(_ context.Context, session *gocql.Session) (err error) {
			w.command, err = s.tablesCommand(session, program)
			return err
		})
	}
	if err != nil {
		w.close()
		return nil, menu.OfSource(fmt.Errorf("make sorted tables: %w", err))
	}
	return w, nil
}

func (w *workshop) close() {
	if w.dir != "" {
		_ = os.RemoveAll(w.dir) // see newWorkshop
	}
}

func (w *workshop) mkdir(parent, prefix string) (dir string, err error) {
	if dir, err = os.MkdirTemp(parent, prefix+"*"); err == nil {
		err = os.Chmod(dir, w.mode)
	}
	return dir, err
}

// tablesCommand is the program and its arguments, see SortedTables.java.
func (s *Store) tablesCommand(session *gocql.Session, program string) ([]string, error) {
	home, keyspace, dir := s.cfg.SortedTables.Home, s.cfg.Cluster.Keyspace, filepath.Dir(program)
	java := filepath.Join(home, "java")
	if _, err := os.Stat(java); err != nil {
		java = "java"
	}
	command := []string{
		java, "-Xmx384m", "-XX:+UseSerialGC", "-XX:+PerfDisableSharedMem", "-Djava.io.tmpdir=" + dir, "-Djna.tmpdir=" + dir,
		"--add-opens=java.base/java.io=ALL-UNNAMED", "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
		"--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "-cp", filepath.Join(home, "lib", "*"), program,
		keyspace, "menus", fmt.Sprintf(createMenus, keyspace),
		fmt.Sprintf("INSERT INTO %s.menus (id, version, tag, body) VALUES (?, 1, ?, ?) USING TIMESTAMP %d", keyspace, rowTime),
	}
	nodes := session.GetHosts()
	if n := s.cfg.Cluster.Replication; len(nodes) > n {
		return nil, fmt.Errorf("there are %d nodes and %d replicas of a row, and each node is given all rows: fill in batches", len(nodes), n)
	}
	for _, node := range nodes {
		address := net.JoinHostPort(node.ConnectAddress().String(), jmxPort)
		if !node.IsUp() {
			return nil, fmt.Errorf("%w: node %s is down: start it, or fill in batches", menu.ErrUnavailable, address)
		}
		command = append(command, address)
	}
	return command, nil
}

// tableWriter has a program write sorted tables and nodes import them.
type tableWriter struct {
	workshop *workshop
	program  *exec.Cmd
	to       io.Closer
	in       *bufio.Writer
	out      *bufio.Reader
	said     complaints
}

func (w *workshop) open(context.Context) (dataset.Writer[menu.Menu], error) {
	return &tableWriter{workshop: w}, nil
}

// start starts the program. It ends when its input does, which is also when this one is
// killed.
func (t *tableWriter) start(ctx context.Context) error {
	t.program = exec.CommandContext(ctx, t.workshop.command[0], t.workshop.command[1:]...)
	t.program.Stderr = &t.said
	in, err := t.program.StdinPipe()
	var out io.Reader
	if err == nil {
		out, err = t.program.StdoutPipe()
	}
	if err == nil {
		err = t.program.Start()
	}
	if err != nil {
		return fmt.Errorf("start Java, which writes sorted tables: %w", err)
	}
	t.to, t.in, t.out = in, bufio.NewWriterSize(in, 64<<10), bufio.NewReader(out)
	return nil
}

// Write implements dataset.Writer: the mark after every node has imported the rows.
func (t *tableWriter) Write(ctx context.Context, c *dataset.Chunk[menu.Menu]) error {
	if t.to == nil { // there is something to write
		if err := t.start(ctx); err != nil {
			return menu.OfSource(err)
		}
	}
	timer := time.AfterFunc(tableTimeout, func() { _ = t.program.Process.Kill() }) // it may have ended
	defer timer.Stop()
	dir, err := t.workshop.mkdir(t.workshop.dir, "chunk_")
	if err != nil {
		return menu.OfSource(err)
	}
	wrong, err := t.send(dir, c.Records)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return menu.OfSource(errors.Join(fmt.Errorf("the program that writes sorted tables ended: %w", err), t.Close()))
	case wrong != "":
		return menu.OfSource(fmt.Errorf("%w: %s", menu.ErrUnavailable, wrong))
	}
	if err := os.RemoveAll(dir); err != nil {
		return menu.OfSource(err)
	}
	return chunkWriter{t.workshop.store}.mark(ctx, c)
}

// send hands over rows, and returns what was wrong with them.
func (t *tableWriter) send(dir string, menus []menu.Menu) (wrong string, err error) {
	number := binary.BigEndian
	head := append(number.AppendUint32(nil, uint32(len(dir))), dir...)
	_, err = t.in.Write(number.AppendUint32(head, uint32(len(menus))))
	var body []byte
	for i := range menus {
		body = menus[i].AppendJSON(body[:0])
		head = number.AppendUint64(number.AppendUint64(head[:0], uint64(menus[i].ID)), menu.Tag(body))
		if err == nil {
			_, err = t.in.Write(append(number.AppendUint32(head, uint32(len(body))), body...))
		}
	}
	if err == nil {
		err = t.in.Flush()
	}
	if err == nil {
		wrong, err = t.out.ReadString('\n')
	}
	return strings.TrimSpace(wrong), err
}

// Close implements dataset.Writer: it waits for the program, which has nothing left to do.
func (t *tableWriter) Close() error {
	if t.to == nil {
		return nil
	}
	_ = t.to.Close()
	t.to = nil
	if err := t.program.Wait(); err != nil {
		return menu.OfSource(fmt.Errorf("%w: %s", err, t.said))
	}
	return nil
}

// complaints is the beginning of what a program says.
type complaints []byte

// Write implements io.Writer.
func (c *complaints) Write(p []byte) (int, error) {
	*c = append(*c, p[:min(len(p), 2048-len(*c))]...)
	return len(p), nil
}
