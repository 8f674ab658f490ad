-- +goose Up
-- What was reserved before funds as many replicas as it holds slots for.
UPDATE reservation SET funded = held DIV cost WHERE state = 'reserved' AND funded = 0;
