CREATE TABLE product (id int PRIMARY KEY, name text NOT NULL, price int NOT NULL);
INSERT INTO product SELECT n, 'Product ' || n, 100 + n * 7 % 900 FROM generate_series(1, 1000) n;
