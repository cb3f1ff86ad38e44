package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"loadstone/block/redact"
	"loadstone/system/results"
)

// Reschedule changes when the results in the database come out, by its clock, and notes
// who changed it in the table schedule. Servers see it when they ask next, within
// CheckInterval. The error is choose's, or one of Open's.
func Reschedule(ctx context.Context, address, by string, choose results.Reschedule) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("change when the results in %s come out: %w", redact.Address(address), classify(ctx, err))
		}
	}()
	conn, err := connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if err := checkVersion(ctx, conn); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var now time.Time
		err := tx.QueryRow(ctx, "SELECT clock_timestamp() FROM results.data_set FOR UPDATE").Scan(&now)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		set, err := completeDataSet(ctx, tx)
		if err != nil {
			return err
		}
		have := set.state.PublishAt
		at, err := choose(have, now)
		if err != nil || at.Equal(have) {
			return err
		}
		return schedule(ctx, tx, at, by)
	})
}

// schedule notes an instant, zero for none, and who has set it.
func schedule(ctx context.Context, tx pgx.Tx, at time.Time, by string) error {
	_, zone := at.Zone()
	if _, err := tx.Exec(ctx, "UPDATE results.data_set SET publish_at = $1, publish_zone = $2", instant(at), zone); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "INSERT INTO results.schedule (set_by, publish_at) VALUES ($1, $2)", by, instant(at))
	return err
}

// instant is null if it is zero.
func instant(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

// setSchedule is what the database says of the instant, null for none, with its zone in
// seconds east of UTC, and how many seconds it is away.
func (s *dataSet) setSchedule(at *time.Time, zone int, left float64) {
	if at == nil {
		return
	}
	const most = 1e9 // 30 years: more may not fit into a Duration
	s.state.PublishAt = at.In(time.FixedZone("", zone))
	s.state.Due = time.Now().Add(time.Duration(max(-most, min(left, most)) * float64(time.Second)))
}
